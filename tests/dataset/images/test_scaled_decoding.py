"""JPEGs decoded at a fraction of their size: whole as Pillow does it, and every box of them."""

import io
import itertools

import numpy as np
import pytest
import simplejpeg
from flat_jpeg import flat_jpeg
from PIL import Image

from stoker.dataset.images.box_decoding import BoxScratch
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.images.orientation import oriented
from stoker.dataset.images.scaled_decoding import (
    can_scale,
    decode_scaled,
    decode_scaled_box,
    reduced,
    touched,
)
from stoker.dataset.limits import CodecError

pytestmark = pytest.mark.slow
SAMPLINGS = ("444", "422", "420", "440", "411", "gray")
DIVISORS = (2, 4, 8)


def encoded(pixels, sampling, quality=90):
    pixels = np.ascontiguousarray(pixels)
    if sampling == "gray":
        return simplejpeg.encode_jpeg(pixels[..., 1:2].copy(), quality, colorspace="GRAY")
    return simplejpeg.encode_jpeg(pixels, quality, colorsubsampling=sampling)


def by_pillow(data, divisor):
    """Return the reduced image that libjpeg-turbo gives to Pillow."""
    image = Image.open(io.BytesIO(data))
    size = image.size
    image.draft(None, (size[0] // divisor, size[1] // divisor))
    assert image.size == reduced(size, divisor)
    return np.asarray(image.convert("RGB"))


def whole(data, size, divisor, turn=1):
    out = np.zeros(3 * size[0] * size[1], np.uint8)
    return decode_scaled(memoryview(data), size, turn, divisor, out, BoxScratch())


def boxes_of(size, count, seed):
    rng = np.random.default_rng(seed)
    for number in range(count):
        most = size if number % 2 else (min(size[0], 9), min(size[1], 9))
        h, w = (int(rng.integers(1, side + 1)) for side in most)
        yield int(rng.integers(0, size[0] - h + 1)), int(rng.integers(0, size[1] - w + 1)), h, w


def differing(data, size, divisor, count, turn=1):
    """Return the boxes of a gridded file that differ from the whole reduced image."""
    made, scratch, wrong, cut = rewrite(data), BoxScratch(), [], 0
    expected = whole(made.data, size, divisor, turn)
    views = memoryview(made.data), memoryview(made.grid.to_bytes())
    for box in boxes_of(size, count, divisor):
        out = np.full(3 * size[0] * size[1], 77, np.uint8)
        got = decode_scaled_box(*views, size, turn, divisor, box, out, scratch)
        if got is None:
            continue
        cut += 1
        y, x, rows, columns = touched(box, divisor)
        part = slice(y, y + rows), slice(x, x + columns)
        painted = np.full_like(expected, 77)
        painted[part] = expected[part]
        if not np.array_equal(got, painted):
            wrong.append(box)
    assert cut > 0 or size[0] * size[1] < 100 * 100, "no box was cut out"
    return wrong


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_whole_is_pillows_and_boxes_are_parts_of_it(photographs, sampling):
    pixels = np.tile(photographs["china"], (3, 4, 1))
    sizes = [(150, 200), (101, 97), (64, 519), (399, 33), (9, 9), (16, 3), (1, 11)]
    for size, divisor in itertools.product(sizes, DIVISORS):
        data = encoded(pixels[: size[0], : size[1]], sampling)
        if min(size) >= divisor:  # Pillow reduces less, not to an axis of one pixel
            assert np.array_equal(whole(data, size, divisor), by_pillow(data, divisor)), size
        assert differing(data, size, divisor, 40) == [], (size, divisor)


def test_samplings_in_all_forms_of_their_factors(photographs):
    for factors in (
        [(2, 2), (2, 1), (2, 1)], [(2, 2), (1, 2), (1, 2)], [(1, 4), (1, 1), (1, 1)],
        [(4, 1), (1, 1), (1, 1)], [(3, 1), (3, 1), (3, 1)],
    ):  # fmt: skip
        for divisor in DIVISORS:
            assert differing(flat_jpeg(137, 145, factors), (137, 145), divisor, 15) == [], factors


@pytest.mark.parametrize("turn", range(1, 9))
def test_orientations(photographs, to_jpeg, turn):
    """An axis that is mirrored has no rest, or the file is decoded whole."""
    pixels = photographs["astronaut"][:144, :136]
    data = to_jpeg(pixels, orientation=turn)
    upright = oriented(simplejpeg.decode_jpeg(data), turn).shape[:2]
    for divisor in DIVISORS:
        assert can_scale(memoryview(data), upright, turn, divisor)
        assert np.array_equal(
            whole(data, upright, divisor, turn), oriented(by_pillow(data, divisor), turn)
        )
        assert differing(data, upright, divisor, 20, turn) == []
    rest = can_scale(memoryview(data), (upright[0] + 1, upright[1] + 1), turn, 2)
    assert rest == (turn in (1, 5))


def test_what_is_decoded_whole(photographs):
    small, png = encoded(photographs["china"][:8, :8], "420"), io.BytesIO()
    Image.fromarray(photographs["china"]).save(png, "PNG")
    assert not can_scale(memoryview(small), (8, 8), 1, 2)
    assert not can_scale(memoryview(png.getvalue()), photographs["china"].shape[:2], 1, 2)
    assert not can_scale(memoryview(encoded(photographs["china"], "420")), (427, 640), 1, 1)


def test_a_damaged_file_and_another_size_are_errors(photographs):
    data = encoded(photographs["china"][:120, :136], "420")
    with pytest.raises(CodecError, match="it is damaged"):
        whole(data[: len(data) // 2], (120, 136), 4)
    with pytest.raises(CodecError, match="expected 119x136 pixels, got 120x136"):
        whole(data, (119, 136), 8)
