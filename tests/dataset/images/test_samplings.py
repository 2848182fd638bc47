"""JPEGs of every sampling that the format allows: Pillow's pixels, or an error that names it."""

import io
import itertools

import numpy as np
import pytest
from commands import call
from flat_jpeg import flat_jpeg
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.dataset.images.codecs import SamplingError
from stoker.dataset.images.gridding import with_grid
from stoker.dataset.images.header_size import size_from_header
from stoker.dataset.images.inspection import Scratches, inspect_picture, picture_size
from stoker.dataset.limits import CodecError
from stoker.pipeline import pipeline

pytestmark = pytest.mark.usefixtures("forked_private_daemons")

SIDES = list(itertools.product((1, 2, 3, 4), repeat=2))
EVERY = [
    three for three in itertools.product(SIDES, repeat=3) if sum(h * v for h, v in three) <= 10
]
SIZE = (37, 45)


def by_pillow(data: bytes) -> np.ndarray | None:
    """Pillow's pixels; None if libjpeg does not decode the file."""
    try:
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    except OSError:
        return None


def test_all_samplings():
    assert len(EVERY) == 515
    scratch, found = Scratches(), {"jpeg": 0, "png": 0, "refused": 0}
    for factors in EVERY:
        data = flat_jpeg(*SIZE, factors)
        expected = by_pillow(data)
        if expected is None:
            named = ", ".join(f"{h}x{v}" for h, v in factors)
            with pytest.raises(CodecError, match=f"its components are {named}, of which one does"):
                inspect_picture(data, "image", scratch)
            found["refused"] += 1
            continue
        picture = inspect_picture(data, "image", scratch)
        pixels = scratch.pixels.take(3 * SIZE[0] * SIZE[1]).reshape(*SIZE, 3)
        assert np.array_equal(pixels, expected), factors
        assert picture_size(data) == (picture.height, picture.width) == SIZE
        found[picture.encoding] += 1
        if picture.encoding == "jpeg":
            assert with_grid(picture, scratch).grid
        else:
            assert picture.notes == ("JPEG of unusual sampling re-encoded as PNG without loss",)
    assert found == {"jpeg": 12, "png": 299, "refused": 204}


def test_a_damaged_file_of_unusual_sampling_is_refused_though_pillow_repairs_it():
    data = flat_jpeg(400, 400, [(2, 2), (1, 2), (1, 1)])
    cut = data[: len(data) // 2] + b"\xff\xd9"
    assert by_pillow(cut) is not None
    with pytest.raises(CodecError, match="damaged"):
        inspect_picture(cut, "image", Scratches())


def test_read_in_place_the_error_says_to_pack_it():
    data = flat_jpeg(*SIZE, [(2, 2), (1, 2), (1, 1)])
    with pytest.raises(SamplingError, match=r"are 2x2, 1x2, 1x1, which the decoder .* pack the so"):
        size_from_header(len(data), "image", lambda count: data[:count])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"\xff\xd8\xff\xda\0\x08", "there is no frame before the pixels"),
        (b"\xff\xd8\xff\xc0\0\x11\x08\0", "it ends early"),
    ],
)
def test_headers_without_a_frame(header, message):
    with pytest.raises(CodecError, match="its header is damaged"):
        inspect_picture(header + bytes(40), "image", Scratches())


@pipeline
def crops(sample):
    return {"image": ops.random_crop(sample.image, size=16), "label": sample.label}


def test_they_are_packed_and_read(tmp_path):
    """By the command line and a Loader: crops of 4:4:1, on a grid, and of a converted file."""
    whole = {}
    for number, factors in enumerate(([(1, 4), (1, 1), (1, 1)], [(3, 1), (1, 1), (1, 1)])):
        folder = tmp_path / "photos" / f"class{number}"
        folder.mkdir(parents=True)
        data = flat_jpeg(70, 90, factors)
        (folder / "a.jpg").write_bytes(data)
        whole[number] = by_pillow(data)
    (tmp_path / "photos/class1/b.jpg").write_bytes(flat_jpeg(70, 90, [(3, 1), (2, 1), (1, 1)]))
    code, _, errors = call("pack", tmp_path / "photos", tmp_path / "packed", "--workers=1")
    assert code == 1
    assert "class1/b.jpg: the sampling factors of its components are 3x1, 2x1, 1x1" in errors
    flags = ("--workers=1", "--skip-bad")
    code, out, _ = call("pack", tmp_path / "photos", tmp_path / "packed", *flags)
    assert code == 0
    assert "JPEG of unusual sampling re-encoded as PNG without loss: 1 file" in out
    with open_dataset(tmp_path / "packed") as dataset:
        assert dataset.manifest.statistics.fields["image"].gridded == 1
    load = {"pipeline": crops, "batch_size": 2, "device": "numpy", "workers": 1}
    with Loader(str(tmp_path / "packed"), params=True, **load) as loader:
        for _ in range(4):
            for batch in loader:
                places = batch.params["random_crop"]
                for row, label in enumerate(batch.label.tolist()):
                    top, left = (int(places[name][row]) for name in ("top", "left"))
                    expected = whole[label][top : top + 16, left : left + 16]
                    assert np.array_equal(batch.image[row], expected)
