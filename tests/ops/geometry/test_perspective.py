"""perspective against OpenCV's matrix with exact bilinear levels, and Pillow's transform."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.ops import ParameterError, Perspective, State, StateError
from stoker.ops.kernels.projected import row_spans, row_start
from stoker.ops.kernels.projection import plain_projection, projection
from stoker.ops.kernels.warp import BITS

side = st.integers(2, 80)


def opencv_matrix(record, height, width):
    """Return the map from output pixels to source pixels, by solving for the corners."""
    after = np.array(record["corners"], np.float32).reshape(4, 2)
    before = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
    return cv2.getPerspectiveTransform(after, np.array(before, np.float32))


def exact(image, matrix):
    """Return float64 levels, edges repeated, and source positions of pixel corners."""
    height, width = image.shape[:2]
    y, x = np.mgrid[:height, :width]
    u, v, w = np.tensordot(matrix, np.stack([x, y, np.ones_like(x)]), 1)
    depth = np.where(w > 0, w, 1)  # points behind the eye are outside
    x, y = u / depth, v / depth
    inside = (w > 0) & (x >= -0.5) & (x < width - 0.5) & (y >= -0.5) & (y < height - 0.5)
    at_x, at_y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
    x0, y0 = np.floor(at_x).astype(int), np.floor(at_y).astype(int)
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    fx, fy = (at_x - x0)[..., None], (at_y - y0)[..., None]
    above = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
    below = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
    return above * (1 - fy) + below * fy, inside, x + 0.5, y + 0.5


@settings(max_examples=120, deadline=None)
@given(side, side, st.integers(0, 2**40), st.sampled_from([0.1, 0.5, 0.6]))
def test_perspective_is_opencvs_map(run_op, noise, height, width, key, amount):
    """Levels within 0.75 of exact arithmetic, classes exact, except where rounding may decide."""
    image, mask = noise((height, width, 3)), noise((height, width), 1, "int32", 2000)
    op = Perspective(amount, 1, fill=(9, 99, 199), mask_fill=-3)
    done = run_op(op, [("image", image), ("mask", mask)], key)
    levels, inside, x, y = exact(image, opencv_matrix(done.record, height, width))
    near = 1e-4
    edge = (np.abs(x) < near) | (np.abs(x - width) < near)
    edge |= (np.abs(y) < near) | (np.abs(y - height) < near)
    expected = np.where(inside[..., None], levels, (9, 99, 199))
    assert np.abs(done.outputs[0] - expected)[~edge].max(initial=0) <= 0.75
    tie = edge | (np.abs(x - np.round(x)) < near) | (np.abs(y - np.round(y)) < near)
    rows = np.floor(np.where(inside, y, 0)).clip(0, height - 1).astype(int)
    columns = np.floor(np.where(inside, x, 0)).clip(0, width - 1).astype(int)
    assert (done.outputs[1] == np.where(inside, mask[rows, columns], -3))[~tie].all()
    assert inside.any()


def test_a_photograph_is_pillows(run_op, photo):
    for key in range(5):
        done = run_op(Perspective(0.5, 1), [("image", photo)], key)
        shift = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        matrix = shift @ opencv_matrix(done.record, *photo.shape[:2]) @ np.linalg.inv(shift)
        numbers = (matrix / matrix[2, 2]).ravel()[:8]
        expected = Image.fromarray(photo).transform(
            (500, 375), Image.Transform.PERSPECTIVE, numbers, Image.Resampling.BILINEAR
        )
        away = np.abs(done.outputs[0].astype(int) - np.asarray(expected)).max(-1)
        assert (away > 1).mean() < 1e-4, "a pixel on the very edge may fall to the other side"
        assert 0.2 < (done.outputs[0].max(-1) > 0).mean() < 1


@settings(max_examples=200, deadline=None)
@given(side, side, st.integers(0, 2**40), st.floats(0, 0.6))
def test_corners_are_convex_and_in_their_quarters(run_op, height, width, key, amount):
    record = run_op.draw(Perspective(amount, 1), key, height, width)
    corners = np.array(record["corners"]).reshape(4, 2)
    assert record["applied"] == 1
    far = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]])
    moved = np.abs(corners - far)
    assert (moved <= amount * np.array([width - 1, height - 1]) / 2).all()
    edges = np.roll(corners, -1, 0) - corners
    following = np.roll(edges, -1, 0)
    assert (edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0] > 0).all()


def seen_pixels(corners, height, width):
    """Return which output pixels have a position, `(H, W) bool`."""
    across, down, seen = plain_projection(corners, height, width)
    return seen & (across < width << BITS) & (down < height << BITS)


@settings(max_examples=300, deadline=None)
@given(side, side, st.lists(st.integers(-90, 180), min_size=8, max_size=8))
def test_spans_of_a_row_hold_for_any_corners(height, width, corners):
    numbers = projection(corners, height, width)
    for y, seen in enumerate(seen_pixels(corners, height, width)):
        (first, end), (low, high) = row_spans(
            numbers, row_start(numbers, y), (height, width), width
        )
        assert 0 <= low <= first <= end <= high <= width
        assert seen[first:end].all()
        assert not seen[:low].any()
        assert not seen[high:].any()


def test_spans_of_a_row_are_nearly_all_of_it(run_op):
    for key in range(20):
        corners = run_op.draw(Perspective(0.5, 1), key, 375, 500)["corners"].tolist()
        numbers = projection(corners, 375, 500)
        for y, seen in enumerate(seen_pixels(corners, 375, 500)):
            inner, outer = row_spans(numbers, row_start(numbers, y), (375, 500), 500)
            assert inner[1] - inner[0] >= seen.sum() - 4
            assert outer[1] - outer[0] <= seen.sum() + 6


@settings(max_examples=100, deadline=None)
@given(side, side, st.lists(st.integers(-90, 180), min_size=8, max_size=8))
def test_any_corners_of_a_record_give_the_pixels_of_numpy(run_op, noise, height, width, corners):
    """Also those that no draw gives: folded, behind the eye, far outside."""
    op = Perspective(0.5, 1, "nearest", fill=(9, 99, 199), mask_fill=7)
    image, mask = noise((height, width, 3)), noise((height, width))
    record = run_op.draw(op, 1, height, width)
    record["corners"] = corners
    done = run_op(op, [("image", image), ("mask", mask)], record=record)
    across, down, _ = plain_projection(corners, height, width)
    seen = seen_pixels(corners, height, width)
    rows, columns = np.where(seen, down, 0) >> BITS, np.where(seen, across, 0) >> BITS
    assert (done.outputs[0] == np.where(seen[..., None], image[rows, columns], (9, 99, 199))).all()
    assert (done.outputs[1] == np.where(seen, mask[rows, columns], 7)).all()


def test_corners_that_stay_and_thin_images(run_op, noise):
    image = noise((20, 30, 3))
    assert (run_op(Perspective(0, 1), [("image", image)]).outputs[0] == image).all()
    for shape in ((1, 30, 3), (30, 1, 3), (1, 1, 3)):
        done = run_op(Perspective(0.6, 1), [("image", noise(shape))])
        assert done.record["applied"] == 0
        assert (done.outputs[0] == noise(shape)).all()
    drawn = [int(run_op.draw(Perspective(p=0.3), k, 50, 50)["applied"]) for k in range(1500)]
    assert abs(np.mean(drawn) - 0.3) < 0.04


def test_messages():
    with pytest.raises(ParameterError) as caught:
        Perspective(0.7)
    assert str(caught.value) == (
        "perspective: expected distortion_scale to be a number from 0 to 0.6, got 0.7"
    )
    with pytest.raises(ParameterError, match="p to be a number from 0 to 1, got 2"):
        Perspective(p=2)
    with pytest.raises(StateError, match=r"^perspective: expected mask_fill from 0 to 255"):
        Perspective(mask_fill=-1).declare((State.fixed("mask", "uint8", (9, 9)),))
