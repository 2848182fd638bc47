"""`decode="scaled"` through a Loader: rows are Pillow's, from a reduced image and the same draws.

The reference of a row: the file reduced by Pillow's `draft`, and the box, which is the one that the
exact op draws, resized by Pillow in the reduced image, between the pixels that it touches.
"""

import io
import shutil

import numpy as np
import pytest
import skimage.data
from daemons import serving
from PIL import Image, ImageOps

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipeline

pytestmark = pytest.mark.slow
SIZE = (24, 31)
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}


def upright_size(data):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size[::-1]


def file_of(pixels, form="JPEG", **options):
    out = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(out, form, **({"quality": 90} | options))
    return out.getvalue()


def turned(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return {"exif": exif}


def pictures():
    """Photographs of every sampling and orientation, and what cannot be decoded at a fraction."""
    cat, cup = skimage.data.chelsea(), skimage.data.coffee()
    yield from (file_of(cat[:, : 451 - 30 * n], subsampling=n) for n in range(3))
    yield file_of(Image.fromarray(cup).convert("L"))
    yield file_of(cup, progressive=True)
    yield from (file_of(cup[8:, :592], **turned(n)) for n in range(1, 9))
    yield file_of(cup[:397, :501], **turned(6))  # an axis with a rest that is mirrored
    yield file_of(Image.fromarray(cat).convert("CMYK"))
    yield file_of(cat, "PNG")
    yield file_of(cat[:1, :1])
    yield file_of(cat[:8, :7])
    yield from (file_of(cat[: 20 + n, : 3 * n]) for n in (10, 50, 60))
    yield file_of(np.tile(cup, (2, 3, 1)), subsampling=2)


@pytest.fixture(scope="module")
def files():
    return list(pictures())


@pytest.fixture(scope="module")
def daemon(files, session_folder):
    folder, flags = session_folder / "scaled", []
    folder.mkdir()
    rows = []
    for number, data in enumerate(files):
        size = upright_size(data)
        mask = np.random.default_rng(number).integers(0, 9, size, np.uint8)
        rows.append({"image": data, "mask": file_of(mask, "PNG")})
    for name, image in (("gridded", schema.image(grid=True)), ("plain", schema.image())):
        write(str(folder / name), [image, schema.mask()], rows)
        flags.append(f"--dataset={name}={folder / name}")
    with serving(folder, *flags, "--workers=2") as running:
        yield running
    shutil.rmtree(folder)


def read(daemon, dataset, made, **more):
    options = {"batch_size": 4, "seed": 3, "device": "numpy", "params": True, "last": "pad"} | more
    found = {}
    with Loader(daemon.address, dataset=dataset, pipeline=made, **options) as loader:
        for batch in loader:
            params = {name: op[name] for op in batch.params.values() for name in op.dtype.names}
            for place in np.flatnonzero(batch.valid):
                row = {name: np.array(value[place]) for name, value in batch.items()}
                row["params"] = {name: int(value[place]) for name, value in params.items()}
                found[int(batch.index[place])] = row
    return found


def divisor(box, size):
    least = min(box[2] // size[0], box[3] // size[1])
    return max(n for n in (1, 2, 4, 8) if n <= max(least, 1))


def expected(data, box, size, resample):
    """Return the image, and by how much its file was reduced."""
    image, upright = Image.open(io.BytesIO(data)), upright_size(data)
    orientation, by = image.getexif().get(0x0112, 1), divisor(box, size)
    mirrored = (orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7))
    rest = any(side % by for side, turns in zip(upright, mirrored, strict=True) if turns)
    if image.format != "JPEG" or max(upright) < 9 or rest:
        by = 1
    if by > 1:
        image.draft(None, tuple(side // by for side in image.size))
    pixels = ImageOps.exif_transpose(image).convert("RGB")
    assert pixels.size == tuple(-(-side // by) for side in reversed(upright))
    top, left, height, width = box
    y, x = top // by, left // by
    corner = (left + width - 1) // by + 1, (top + height - 1) // by + 1
    place = left / by - x, top / by - y, (left + width) / by - x, (top + height) / by - y
    part = pixels.crop((x, y, *corner))
    return np.asarray(part.resize(size[::-1], resample, box=place)), by


def crop_by(interpolation, **decode):
    @pipeline
    def crop(sample):
        image, mask = ops.random_resized_crop(
            sample.image, sample.mask, size=SIZE, scale=(0.2, 1), interpolation=interpolation,
            **decode,
        )  # fmt: skip
        return {"image": image, "mask": mask, "height": sample.image.height}

    return crop


@pytest.mark.parametrize("interpolation", FILTERS)
def test_a_crop_is_pillows_of_the_reduced_file(daemon, files, interpolation):
    scaled = crop_by(interpolation, decode="scaled")
    found = {name: read(daemon, name, scaled) for name in ("gridded", "plain")}
    exact = read(daemon, "gridded", crop_by(interpolation))
    seen = []
    for number, data in enumerate(files):
        row, drawn = found["gridded"][number], exact[number]["params"]
        box = tuple(drawn[name] for name in ("top", "left", "height", "width"))
        image, by = expected(data, box, SIZE, FILTERS[interpolation])
        seen.append(by)
        if Image.open(io.BytesIO(data)).mode != "CMYK":
            assert np.array_equal(row["image"], image), (number, by)
        assert np.array_equal(row["mask"], exact[number]["mask"]), number
        size = upright_size(data)
        assert row["height"] == size[0] == row["params"]["of_height"]
        assert row["params"] == drawn | dict(zip(("of_height", "of_width"), size, strict=True))
        assert np.array_equal(row["image"], found["plain"][number]["image"]), number
        if by == 1:
            assert np.array_equal(row["image"], exact[number]["image"]), number
    assert {1, 2, 4, 8} <= set(seen)


def test_a_resize_is_pillows_of_the_reduced_file(daemon, files):
    @pipeline
    def small(sample):
        image, mask = ops.resize(sample.image, sample.mask, size=SIZE, decode="scaled")
        return {"image": image, "mask": mask}

    @pipeline
    def masks(sample):
        return {"mask": ops.resize(sample.mask, size=SIZE)}

    found, exact = read(daemon, "gridded", small), read(daemon, "plain", masks)
    for number, data in enumerate(files):
        box = (0, 0, *upright_size(data))
        image, _ = expected(data, box, SIZE, Image.BILINEAR)
        if Image.open(io.BytesIO(data)).mode != "CMYK":
            assert np.array_equal(found[number]["image"], image), number
        assert np.array_equal(found[number]["mask"], exact[number]["mask"]), number
