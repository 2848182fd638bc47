"""Turned images of floats are NumPy's, every bit of them."""

import numpy as np
import pytest

from stoker.ops import make


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (16, 16), (17, 33), (50, 31)])
def test_turns_are_numpys(run_op, as_record, size, channels):
    draw = np.random.default_rng(4)
    bits = draw.integers(0, 2**32, (*size, channels), np.uint32)
    image = bits.view(np.float32)  # all kinds of NaN among them
    for turns in range(4):
        op = make("rot90", {})
        record = as_record(op.record)
        record["turns"] = turns
        got = run_op(op, [("image", image)], record=record).outputs[0]
        assert np.array_equal(got.view(np.uint32), np.rot90(bits, turns))
    op = make("transpose", {})
    record = as_record(op.record)
    record["swap"] = 1
    got = run_op(op, [("image", image)], record=record).outputs[0]
    assert np.array_equal(got.view(np.uint32), bits.swapaxes(0, 1))
