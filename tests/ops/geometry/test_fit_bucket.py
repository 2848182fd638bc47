"""fit_bucket: the largest crop of the bucket's ratio, against fractions and against Pillow."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data

from stoker.ops import FitBucket

side = st.integers(1, 900)
SIZES = [(64, 128), (128, 64), (96, 96), (300, 451)]


def largest_crop(height, width, size):
    """The rule in exact fractions: (top, left, height, width) of the crop in the middle."""
    ratio = Fraction(size[1], size[0])
    if Fraction(width, height) > ratio:
        h, w = height, max(int(height * ratio + Fraction(1, 2)), 1)
    else:
        h, w = max(int(width / ratio + Fraction(1, 2)), 1), width
    h, w = min(h, height), min(w, width)
    return (height - h) // 2, (width - w) // 2, h, w


@settings(max_examples=150, deadline=None)
@given(side, side, st.tuples(side, side))
def test_the_crop_is_the_largest_of_the_ratio(run_op, height, width, size):
    found = run_op.draw(FitBucket(size), 5, height, width)
    assert tuple(found) == largest_crop(height, width, size)
    moved = run_op.draw(FitBucket(size, "random"), 5, height, width)
    assert tuple(moved)[2:] == tuple(found)[2:]
    assert 0 <= moved["top"] <= height - found["height"]
    assert 0 <= moved["left"] <= width - found["width"]


def test_a_random_crop_is_uniform(run_op):
    op = FitBucket((100, 100), "random")
    lefts = [int(run_op.draw(op, key, 100, 300)["left"]) for key in range(800)]
    assert min(lefts) < 5
    assert max(lefts) > 195
    assert abs(np.mean(lefts) - 100) < 8


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["bilinear", "bicubic"])
def test_pixels_are_those_of_pillow(run_op, size, name):
    image = data.coffee()[:300]
    op = FitBucket(size, interpolation=name)
    record = run_op.draw(op, 0, *image.shape[:2])
    top, left, h, w = (int(v) for v in record)
    box = (left, top, left + w, top + h)
    filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    expected = Image.fromarray(image).crop(box).resize(size[::-1], filters[name])
    (got,) = run_op(op, [("image", image)]).outputs
    assert got.shape == (*size, 3)
    assert np.abs(got.astype(int) - np.asarray(expected)).max() <= 1


def test_a_picture_of_the_size_is_copied(run_op):
    image = data.chelsea()[:96, :160].copy()
    for name in ("nearest", "bilinear", "bicubic"):
        op = FitBucket((96, 160), "random", name)
        assert np.array_equal(run_op(op, [("image", image)], 3).outputs[0], image)
