"""grid_mask: the record's squares and nothing else, in image and mask; its draws and errors."""

import numpy as np
import pytest

from stoker.ops import GridMask, ParameterError


def test_the_squares_are_filled_and_nothing_else(run_op, noise):
    op = GridMask((5, 40), 0.4, fill=(1, 2, 3), mask_fill=250, p=1)
    for key in range(20):
        image, mask = noise((50, 61, 3), key), noise((50, 61), key, "int32")
        done = run_op(op, [("image", image), ("mask", mask)], key)
        unit, hole = int(done.record["unit"]), int(done.record["hole"])
        tile = np.zeros((unit, unit), bool)
        tile[:hole, :hole] = True
        tile = np.tile(tile, (70 // unit + 20, 70 // unit + 20))
        inside = tile[int(done.record["top"]) :, int(done.record["left"]) :][:50, :61]
        got, got_mask = done.outputs
        assert (got[inside] == [1, 2, 3]).all()
        assert (got_mask[inside] == 250).all()
        assert (got[~inside] == image[~inside]).all()
        assert (got_mask[~inside] == mask[~inside]).all()


def test_units_and_moves_cover_their_ranges(run_op):
    records = np.array([run_op.draw(GridMask((8, 11), 0.3), k, 99, 99) for k in range(800)])
    assert set(records["unit"]) == {8, 9, 10, 11}
    assert set(records["hole"]) == {2, 3}
    for name in ("top", "left"):
        assert set(records[name][records["unit"] == 8]) == set(range(8))
        assert (records[name] < records["unit"]).all()
    extreme = run_op.draw(GridMask((2, 2), 1.0), 0, 99, 99)
    assert extreme["hole"] == 1


@pytest.mark.parametrize("given", [(1, 9), (9, 8), (2.5, 9), 7])
def test_units_are_checked(given):
    with pytest.raises(ParameterError) as caught:
        GridMask(given)
    assert str(caught.value) == (
        "grid_mask: expected unit_range to be (low, high), integers with 2 <= low <= high <= "
        f"65535, got {given!r}"
    )
