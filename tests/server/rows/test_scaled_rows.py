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
from damage import accept_damage
from PIL import Image, ImageOps

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind, shorten
from stoker.protocol.errors import SampleError
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource
from stoker.server.rows.scratch import Scratch

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
    whole = [{"image": skimage.data.chelsea(), "mask": skimage.data.chelsea()[..., 0]}] * 4
    fields = schema.image(encoding="raw"), schema.mask(encoding="raw")
    write(str(folder / "raw"), list(fields), whole)
    flags.append(f"--dataset=raw={folder / 'raw'}")
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


@pytest.mark.parametrize(
    ("by", "length"), [(ops.resize_short, 26), (ops.resize_long, 40)], ids=["short", "long"]
)
def test_resizes_that_keep_the_ratio(daemon, files, by, length):
    """Their size differs from row to row; a center crop gives the rows one."""
    most = {"max_size": 64} if by is ops.resize_short else {}

    def made(**decode):
        @pipeline
        def fitted(sample):
            image, mask = by(sample.image, sample.mask, size=length, **most, **decode)
            image, mask = ops.center_crop(image, mask, size=(90, 90))
            return {"image": image, "mask": mask}

        return fitted

    found = {name: read(daemon, name, made(decode="scaled")) for name in ("gridded", "plain")}
    exact, seen = read(daemon, "gridded", made()), set()
    for number, data in enumerate(files):
        high, wide = upright_size(data)
        short, long = min(high, wide), max(high, wide)
        if by is ops.resize_short:
            a, b = length, max(length * long // short, 1)
            a, b = (max(64 * a // b, 1), 64) if b > 64 else (a, b)
        else:
            a, b = max(length * short // long, 1), length
        size = (b, a) if high > wide else (a, b)
        image, divided = expected(data, (0, 0, high, wide), size, Image.BILINEAR)
        seen.add(divided)
        framed = np.zeros((90, 90, 3), np.uint8)
        top, left = (90 - size[0]) // 2, (90 - size[1]) // 2
        framed[top : top + size[0], left : left + size[1]] = image
        assert np.array_equal(found["gridded"][number]["mask"], exact[number]["mask"]), number
        both = [found[name][number]["image"] for name in ("gridded", "plain")]
        assert np.array_equal(*both)
        if Image.open(io.BytesIO(data)).mode != "CMYK":
            assert np.array_equal(both[0], framed), (number, divided)
    assert {1, 2, 8} <= seen


def test_padded_outputs_and_mixed_rows_are_the_references(daemon, session_folder):
    """Sizes of padded outputs are known before an image is decoded; mixed rows decode two."""

    @pipeline
    def padded(sample):
        image = ops.resize_short(sample.image, size=20, max_size=30, decode="scaled")
        return {"image": outputs.pad(image)}

    @pipeline
    def mixed(sample):
        return {"image": ops.mixup(ops.resize(sample.image, size=SIZE, decode="scaled"))}

    folder = session_folder / "scaled" / "gridded"
    for made in (padded, mixed):
        spec = make_spec(folder, made.graph(), batch_size=8, seed=3, tail="drop")
        reference = reference_batches(folder, made.graph(), spec, epoch=0)
        with Loader(
            daemon.address, dataset="gridded", pipeline=made, batch_size=8, seed=3, device="numpy"
        ) as loader:
            for batch, (_, arrays) in zip(loader, reference, strict=True):
                assert np.array_equal(batch.image, arrays["image"])


def test_raw_images_and_arrays_give_the_pixels_of_the_exact_op(daemon):
    scaled, exact = crop_by("bilinear", decode="scaled"), crop_by("bilinear")
    found, expected = (read(daemon, "raw", made) for made in (scaled, exact))
    cat = {"image": skimage.data.chelsea(), "mask": skimage.data.chelsea()[..., 0].copy()}
    for number, row in found.items():
        assert np.array_equal(row["image"], expected[number]["image"])
        assert np.array_equal(scaled(cat, seed=3, epoch=0, id=number)["image"], row["image"])


def computer(dataset, made, arithmetic, rows, **more):
    graph = made.graph()
    plan = bind(graph, field_states(dataset))
    engine = compile_plan(shorten(plan)) if arithmetic.is_compiled else Interpreter(plan)
    spec = make_spec(dataset.path, graph, batch_size=rows)
    layout = slot_layout(plan.outputs, rows)
    source = [RowSource(dataset, engine)]
    return RowComputer(spec, source, layout, arithmetic=arithmetic, **more), layout.slot_bytes


def test_streams_of_one_thread_that_read_the_same_box_at_other_fractions(tmp_path):
    """The first sample of the one is the last one of the other, in the same memory."""
    pixels = skimage.data.coffee()
    write(str(tmp_path / "one"), [schema.image()], [{"image": file_of(pixels)}])
    scratch = Scratch()

    def row(size, **more):
        @pipeline
        def small(sample):
            return {"image": ops.resize(sample.image, size=(size, size), decode="scaled")}

        filler, size_bytes = computer(dataset, small, COMPILED, 1, **more)
        slot = np.zeros(size_bytes, np.uint8)
        filler.fill(slot, 0, 0, 0, 1)
        return slot[: 3 * size * size].reshape(size, size, 3).copy()

    with open_dataset(tmp_path / "one") as dataset:
        shared = [row(size, scratch=scratch) for size in (40, 80, 160, 300, 40)]
        alone = [row(size) for size in (40, 80, 160, 300, 40)]
    assert all(map(np.array_equal, shared, alone))


def test_a_damaged_file_is_bad_for_the_rows_that_read_the_damage(tmp_path):
    """In machine code as for the reference, which decodes all that is intact."""
    rows = [{"image": file_of(np.tile(skimage.data.coffee(), (2, 2, 1)))}] * 30

    @pipeline
    def corner(sample):
        image = ops.random_resized_crop(sample.image, size=16, scale=(0.02, 0.3), decode="scaled")
        return {"image": image}

    write(str(tmp_path / "bad"), [schema.image(grid=True)], rows)
    with open_dataset(tmp_path / "bad") as dataset:
        file, data = dataset.manifest.files[0], [dataset.read("image", n) for n in range(30)]
        path, whole = tmp_path / "bad" / file.name, (tmp_path / "bad" / file.name).read_bytes()
        places = [whole.index(bytes(data[0])) + n * len(data[0]) for n in range(30)]
        assert all(whole[at : at + len(one)] == one for at, one in zip(places, data, strict=True))
        middles = [at + len(data[0]) // 2 for at in places]
    with path.open("r+b") as stored:
        for at in middles:
            stored.seek(at)
            stored.write(bytes(20))
    accept_damage(tmp_path / "bad")
    found = {}
    with open_dataset(tmp_path / "bad") as dataset:
        for arithmetic in (COMPILED, PLAIN):
            filler, size_bytes = computer(dataset, corner, arithmetic, 30)
            for row in range(30):
                slot = np.zeros(size_bytes, np.uint8)
                try:
                    filler.fill(slot, 0, 0, row, row + 1)
                    result = slot.tobytes()
                except SampleError as error:
                    result = error.details["reason"].partition(":")[0]
                found.setdefault(arithmetic, []).append(result)
    assert found[COMPILED] == found[PLAIN]
    assert 0 < sum(isinstance(row, str) for row in found[PLAIN]) < 30
