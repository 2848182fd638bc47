"""Warps of images of floats: as SciPy's interpolation at the same positions, and as of levels."""

import numpy as np
import pytest
from scipy.ndimage import map_coordinates

from stoker.ops import make
from stoker.ops.kernels.affinity import inverse_steps
from stoker.ops.kernels.warp import UNIT, plain_positions

WARPS = {
    "affine": {"degrees": 40, "translate": 0.2, "scale": (0.5, 2.0), "shear": 20},
    "rotate": {"degrees": 90},
    "perspective": {"p": 1},
    "elastic": {"p": 1},
    "grid_distortion": {"p": 1},
    "optical_distortion": {"p": 1},
}
every = pytest.mark.parametrize("name", WARPS)


def smooth(height, width, channels):
    """Floats below 0 and above 1 that change by less than 0.2 from pixel to pixel."""
    y, x, c = np.ogrid[:height, :width, :channels]
    return (1.5 * np.sin(x / 9 + c) + np.cos(y / 7 - c)).astype(np.float32)


def test_a_rotation_is_scipys_interpolation(run_op):
    op, image = make("rotate", {"degrees": 90}), smooth(60, 83, 3)
    for key in range(5):
        record = run_op.draw(op, key, 60, 83)
        got = run_op(op, [("image", image)], record=record).outputs[0]
        angle = -float(record["angle"])
        across, down = plain_positions(image.shape, inverse_steps((angle, 0, 0, 1, 0, 0), 60, 83))
        x, y = across / UNIT - 0.5, down / UNIT - 0.5
        inside = (x > 0) & (x < 82) & (y > 0) & (y < 59)
        for c in range(3):
            expected = map_coordinates(image[..., c], (y, x), np.float64, order=1, mode="nearest")
            # A weight of 11 bits is off by at most half its unit, along each axis.
            assert np.abs(got[..., c] - expected)[inside].max() <= 0.2 * 2.0**-11 + 1e-6
        assert inside.any()


@every
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_floats_of_levels_move_as_the_levels(run_op, noise, name, channels):
    op, levels = make(name, WARPS[name]), noise((50, 61, channels), 3)
    for key in range(3):
        record = run_op.draw(op, key, 50, 61)
        whole = run_op(op, [("image", levels)], record=record).outputs[0]
        floats = run_op(op, [("image", np.float32(levels))], record=record).outputs[0]
        assert floats.dtype == np.float32
        assert np.abs(floats - whole).max() <= 0.5 + 2.0**-16


@every
def test_nearest_keeps_every_bit(run_op, name):
    op = make(name, {**WARPS[name], "interpolation": "nearest"})
    bits = np.random.default_rng(2).integers(0, 2**16, (40, 44, 3)).astype(np.uint16)
    image = (bits + np.uint32(0x7FC00000)).view(np.float32)  # all of them NaN
    record = run_op.draw(op, 1, 40, 44)
    got = run_op(op, [("image", image)], record=record).outputs[0]
    numbers = run_op(op, [("image", np.float32(bits) + 1)], record=record).outputs[0]
    found = got.view(np.uint32)
    expected = np.where(numbers == 0, 0, np.uint32(numbers - 1) + np.uint32(0x7FC00000))
    assert np.array_equal(found, expected)


def test_a_fill_of_floats(run_op):
    image = np.ones((30, 30, 3), np.float32)
    fill = (-0.25, 0.5, 7.5)
    op = make("rotate", {"degrees": (45, 45), "fill": fill})
    got = run_op(op, [("image", image)]).outputs[0]
    assert (got[0, 0] == np.float32(fill)).all()
