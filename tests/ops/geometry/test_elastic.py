"""elastic against SciPy: a B-spline of Philox numbers, and map_coordinates."""

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.ndimage import map_coordinates

from stoker.ops import Elastic
from stoker.ops.contract.units import unit_of
from stoker.ops.kernels.splines import COLUMNS, plain_displacement, points_on


def field(height, width, spacing, seed, amount):
    """Displacement in pixels, (2, H, W) float64: down and right, of SciPy's splines."""
    rows, columns = points_on(height, spacing), points_on(width, spacing)
    moves = np.empty((rows, columns, 2))
    for row, column in np.ndindex(rows, columns):
        number = row * COLUMNS + column
        counter = np.array([number, 0, 0, 0], np.uint64)
        if number == 0:  # NumPy counts up before it draws, so it begins one block earlier
            counter = np.full(4, 2**64 - 1, np.uint64)
        else:
            counter[0] -= np.uint64(1)
        words = np.random.Philox(key=np.array(seed, np.uint64), counter=counter).random_raw(2)
        moves[row, column] = amount * (2 * (words >> np.uint64(11)) * 2.0**-53 - 1)
    for axis, side in enumerate((height, width)):
        knots = np.arange(-3, moves.shape[axis] + 1)
        moves = BSpline(knots, moves, 3, axis=axis)(np.arange(side) / spacing)
    return moves[..., 1], moves[..., 0]


@pytest.mark.parametrize(("spacing", "amount"), [(8, 3.8), (13, 2.0), (32, 12.0), (200, 96.0)])
def test_displacement_is_scipys_spline(spacing, amount):
    seed = (0x0123456789ABCDEF, 77)
    across, down = plain_displacement((61, 83), spacing, seed, amount)
    expected_y, expected_x = field(61, 83, spacing, seed, amount)
    y, x = np.mgrid[:61, :83]
    # A weight is rounded to 2**-16; four of them, twice.
    assert np.abs(across / 2**24 - x - 0.5 - expected_x).max() < amount * 2**-12
    assert np.abs(down / 2**24 - y - 0.5 - expected_y).max() < amount * 2**-12


def test_pixels_are_scipys_within_rounding(run_op, as_record, photo):
    image = np.ascontiguousarray(photo[100:190, 150:280])
    record = as_record(Elastic.record)
    record["apply"], record["amount"], record["seed"] = 1, 9.0, (3, 4)
    op = Elastic((2, 12), 32, fill=0)
    got = run_op(op, [("image", image)], record=record).outputs[0].astype(float)
    down, right = field(90, 130, 32, (3, 4), 9.0)
    y, x = np.mgrid[:90, :130]
    inside = (y + down > 0) & (y + down < 89) & (x + right > 0) & (x + right < 129)
    assert inside.mean() > 0.8
    for c in range(3):
        exact = map_coordinates(image[..., c].astype(float), [y + down, x + right], order=1)
        assert np.abs(got[..., c] - exact)[inside].max() <= 1.0


def test_nothing_folds_and_nothing_goes_further_than_the_amount():
    for seed in range(20):
        across, down = plain_displacement((120, 120), 16, (seed, 1), 0.48 * 16)
        x = np.arange(120)
        assert np.abs(across / 2**24 - x - 0.5).max() <= 0.48 * 16
        rate = np.array([np.gradient(across / 2**24), np.gradient(down / 2**24)])
        assert (rate[0, 1] * rate[1, 0] - rate[0, 0] * rate[1, 1]).min() > 0


def test_an_amount_is_told_in_pixels():
    assert unit_of(Elastic, "amount") == "px"
