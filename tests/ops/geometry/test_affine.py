"""affine and rotate: positions as torchvision's matrix and Pillow's transform, levels within 1."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.jit.arithmetic import PLAIN
from stoker.ops import Affine, ParameterError, Rotate
from stoker.ops.kernels.warp import span

side = st.integers(1, 70)
angles = st.floats(-360, 360)
leans = st.floats(-60, 60)


def torchvision_inverse(center, angle, translate, scale, shear):
    """torchvision 0.2x, functional._get_inverse_affine_matrix."""
    rot, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    cx, cy = center
    tx, ty = translate
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    matrix = [x / scale for x in (d, -b, 0.0, -c, a, 0.0)]
    matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty) + cx
    matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty) + cy
    return matrix


def test_ranges_of_shifts():
    """Four numbers are ranges; one or two are ranges about 0, with the same draws as ever."""
    about_0 = Affine(0, translate=(0.1, 0.25))
    ranges = Affine(0, translate=(-0.1, 0.1, -0.25, 0.25))
    toward = Affine(0, translate=(0.2, 0.2, -0.5, 0))
    for number in range(50):
        drawn = about_0.sample(200, 100, id=number)
        assert drawn == ranges.sample(200, 100, id=number)
        assert -10 <= drawn["translate_x"] <= 10
        shifted = toward.sample(200, 100, id=number)
        assert shifted["translate_x"] == 20
        assert -100 <= shifted["translate_y"] <= 0


def decided(as_record, angle, translate=(0, 0), scale=1.0, shear=(0.0, 0.0)):
    value = np.array((angle, *translate, scale, *shear), Affine.record)
    return as_record(Affine.record, value)


def positions(matrix, height, width):
    """Return exact source positions of the output's pixel centers, (x, y)."""
    a, b, c, d, e, f = matrix
    y, x = np.mgrid[:height, :width] + 0.5
    return a * x + b * y + c, d * x + e * y + f


def exact_bilinear(image, x, y):
    """Bilinear levels in float64, edges repeated; and which positions are inside."""
    height, width = image.shape[:2]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    x, y = np.clip(x - 0.5, 0, width - 1), np.clip(y - 0.5, 0, height - 1)
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    fx, fy = (x - x0)[..., None], (y - y0)[..., None]
    above = image[y0, x0] * (1 - fx) + image[y0, x1] * fx
    below = image[y1, x0] * (1 - fx) + image[y1, x1] * fx
    return above * (1 - fy) + below * fy, inside


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(side, side),
    angles,
    st.tuples(st.integers(-30, 30), st.integers(-30, 30)),
    st.floats(0.05, 20),
    st.tuples(leans, leans),
)
def test_affine_is_torchvisions(run_op, noise, as_record, size, angle, move, scale, shear):
    """Levels within 0.75 of exact arithmetic, classes exact, except where rounding may decide.

    0.5 is the rounding of a level, 2 * 255 / 4096 that of the weights.
    """
    image, mask = noise((*size, 3)), noise(size, 1, "int32", 2000)
    record = decided(as_record, angle, move, scale, shear)
    op = Affine(0, fill=(9, 99, 199), mask_fill=-3)
    done = run_op(op, [("image", image), ("mask", mask)], record=record)
    matrix = torchvision_inverse((size[1] / 2, size[0] / 2), angle, move, scale, shear)
    x, y = positions(matrix, *size)
    levels, inside = exact_bilinear(image, x, y)
    expected = np.where(inside[..., None], levels, (9, 99, 199))
    near = 1e-4  # pixels: a position's error, over 70 steps of half of 2**-24
    edge = np.zeros(size, bool)
    for at, count in ((x, size[1]), (y, size[0])):
        edge |= (np.abs(at) < near) | (np.abs(at - count) < near)
    assert np.abs(done.outputs[0] - expected)[~edge].max(initial=0) <= 0.75
    tie = edge | (np.abs(x - np.round(x)) < near) | (np.abs(y - np.round(y)) < near)
    rows = np.clip(np.floor(y), 0, size[0] - 1).astype(int)
    columns = np.clip(np.floor(x), 0, size[1] - 1).astype(int)
    classes = np.where(inside, mask[rows, columns], -3)
    assert (done.outputs[1] == classes)[~tie].all()


def test_rotation_of_a_photograph_is_pillows(run_op, as_record, photo):
    compared = 0
    for key in range(6):
        op = Rotate(180, fill=77)
        done = run_op(op, [("image", photo)], key)
        angle = float(done.record["angle"])
        turned = Image.fromarray(photo).rotate(
            angle, Image.Resampling.BILINEAR, fillcolor=(77, 77, 77)
        )
        away = np.abs(done.outputs[0].astype(int) - np.asarray(turned)).max(-1)
        assert (away > 1).mean() < 1e-4, "a pixel on the very edge may fall to the other side"
        compared += int((np.asarray(turned) != 77).sum())
    assert compared > 1_000_000


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_quarter_turns_of_a_square_are_exact(run_op, noise, turns, interpolation):
    image, mask = noise((33, 33, 3)), noise((33, 33), dtype="uint16")
    op = Rotate((90 * turns, 90 * turns), interpolation)
    done = run_op(op, [("image", image), ("mask", mask)])
    assert (done.outputs[0] == np.rot90(image, turns)).all()
    assert (done.outputs[1] == np.rot90(mask, turns)).all()


def test_shifts_are_exact(run_op, noise, as_record):
    image, mask = noise((21, 34, 4)), noise((21, 34))
    record = decided(as_record, 0.0, (5, -3))
    op = Affine(0, fill=(1, 2, 3, 4), mask_fill=8)
    done = run_op(op, [("image", image), ("mask", mask)], record=record)
    expected = np.empty_like(image)
    expected[:] = (1, 2, 3, 4)
    expected[:18, 5:] = image[3:, :29]
    assert (done.outputs[0] == expected).all()
    expected = np.full_like(mask, 8)
    expected[:18, 5:] = mask[3:, :29]
    assert (done.outputs[1] == expected).all()


@settings(max_examples=300, deadline=None)
@given(st.integers(-200, 200), st.integers(-30, 30), st.integers(1, 150), st.integers(0, 40))
def test_span_is_what_a_test_of_every_pixel_finds(start, step, limit, count):
    first, end = span(start, step, limit, count)
    assert 0 <= first <= end <= count or (first, end) == (0, 0)
    assert list(range(first, end)) == [x for x in range(count) if 0 <= start + step * x < limit]


def test_draws_are_uniform_in_their_ranges(run_op):
    op = Affine((-10, 30), (0.25, 0.1), (0.5, 2), (-5, 5, 10, 20))
    drawn = np.array([tuple(run_op.draw(op, k, 100, 200)) for k in range(2500)])
    ranges = [(-10, 30), (-50, 50), (-10, 10), (0.5, 2), (-5, 5), (10, 20)]
    for column, (low, high) in zip(drawn.T, ranges, strict=True):
        slack = (high - low) * 0.03
        assert low <= column.min() < low + slack
        assert high - slack < column.max() <= high
        assert abs(column.mean() - (low + high) / 2) < slack
    assert np.abs(np.corrcoef(drawn.T) - np.eye(6)).max() < 0.08
    angles = [float(run_op.draw(Rotate(40), k, 9, 9)["angle"]) for k in range(1000)]
    assert -40 <= min(angles) < -38
    assert 38 < max(angles) <= 40


def test_the_largest_image_and_the_smallest_scale(run_op, as_record, noise):
    """Positions far outside stay inside of int64; nothing is read there."""
    image = noise((2, 65535, 1))
    for scale, shear in ((1 / 64, (80.0, 80.0)), (1 / 64, (-80.0, 80.0)), (64.0, (80.0, -80.0))):
        record = decided(as_record, 222.0, (65535, 65535), scale, shear)
        fast = run_op(Affine(0), [("image", image)], record=record)
        slow = run_op(Affine(0), [("image", image)], record=record, arithmetic=PLAIN)
        assert (fast.outputs[0] == slow.outputs[0]).all()


def test_one_form():
    assert Affine(30) == Affine((-30, 30.0), (0, 0), (1, 1), (0, 0, 0, 0))
    assert Affine(0, shear=(-5, 5)) == Affine(0, shear=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Rotate(-1),
            "rotate: expected degrees to be a number from 0 to 360, or (low, high) with -360 <= "
            "low <= high <= 360, got -1",
        ),
        (
            lambda: Affine((5, 4)),
            "affine: expected degrees to be a number from 0 to 360, or (low, high) with -360 <= "
            "low <= high <= 360, got (5, 4)",
        ),
        (
            lambda: Affine(0, translate=1.5),
            "affine: expected translate to be a number from 0 to 1, or (horizontal, vertical), got "
            "1.5",
        ),
        (
            lambda: Affine(0, scale=(0, 1)),
            "affine: expected scale to be (low, high) with low <= high, above 0.015625 and at most "
            "64, got (0, 1)",
        ),
        (
            lambda: Affine(0, shear=(1, 2, 3)),
            "affine: expected shear to be a number from 0 to 80, or (low, high) with -80 <= low <= "
            "high <= 80, got (1, 2, 3)",
        ),
        (
            lambda: Affine(0, shear=(0, 0, 0, 81)),
            "affine: expected shear to be a number from 0 to 80, or (low, high) with -80 <= low <= "
            "high <= 80, got (0, 81)",
        ),
        (
            lambda: Rotate(1, "bicubic"),
            "rotate: expected interpolation to be one of nearest, bilinear, got 'bicubic'",
        ),
    ],
)
def test_messages(make, message):
    with pytest.raises(ParameterError) as caught:
        make()
    assert str(caught.value) == message
