"""Pictures for notebooks: PNG as Pillow reads it, and HTML without markup from outside."""

import io

import numpy as np
import pytest
from PIL import Image

from stoker.protocol.pictures import LARGEST, as_picture, figure, png, table

RNG = np.random.default_rng(7)


def read(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize("shape", [(8, 11), (20, 9, 3), (1, 1), (1, 7, 3)])
def test_pillow_reads_the_same_pixels(shape) -> None:
    pixels = RNG.integers(0, 256, shape, np.uint8)
    assert np.array_equal(read(png(pixels)), pixels)


@pytest.mark.parametrize(
    ("shape", "of_it"),
    [
        ((20, 30), lambda a: a),
        ((20, 30, 1), lambda a: a[:, :, 0]),
        ((20, 30, 3), lambda a: a),
        ((20, 30, 4), lambda a: a[:, :, :3]),
        ((3, 20, 30), lambda a: np.moveaxis(a, 0, -1)),
        ((1, 20, 30), lambda a: a[0]),
        ((2 * LARGEST, 30, 3), lambda a: a[::2, ::2]),
        ((30, 2 * LARGEST + 1), lambda a: a[::3, ::3]),
    ],
)
def test_images_of_both_layouts_are_pictures(shape, of_it) -> None:
    pixels = RNG.integers(0, 256, shape, np.uint8)
    assert np.array_equal(as_picture(pixels), of_it(pixels))


def test_other_values_are_scaled_to_black_and_white() -> None:
    values = np.linspace(-2.0, 2.0, 256, dtype=np.float32).reshape(16, 16)
    assert np.array_equal(as_picture(values), np.arange(256).reshape(16, 16))
    values[3, 3], values[4, 4] = np.nan, np.inf
    assert as_picture(values)[3, 3] == as_picture(values)[4, 4] == 0
    mask = np.zeros((16, 16), bool)
    mask[2] = True
    assert np.array_equal(as_picture(mask), 255 * mask)
    assert not as_picture(np.full((16, 16), np.nan)).any()
    assert not as_picture(np.full((16, 16), 7, np.int64)).any()


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((7, 90), np.uint8), np.zeros((90, 90, 2), np.uint8), np.zeros(90),
        np.zeros((2, 3, 90, 90)), np.zeros((90, 90), complex), np.full((90, 90), "a"), None, [[1]],
    ],
)  # fmt: skip
def test_other_arrays_are_no_pictures(value) -> None:
    assert as_picture(value) is None


def test_text_is_escaped() -> None:
    evil = '"><script>alert(1)</script>'
    for made in (figure(np.zeros((8, 8), np.uint8), evil), table([evil], [[evil]])):
        assert "<script" not in made
        assert "&lt;script&gt;" in made
        assert '"&quot;' not in made.replace('alt="&quot;', "")
