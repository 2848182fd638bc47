"""layout against numpy.transpose, forth and back, and its refusals."""

import numpy as np
import pytest

from stoker.ops import Layout


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_layout_is_numpys_transpose(run_op, noise, dtype, channels):
    array = noise((11, 23, channels), dtype=dtype)
    (planes,) = run_op(Layout("CHW"), [("array", array)]).outputs
    assert (planes == array.transpose(2, 0, 1)).all()
    (back,) = run_op(Layout("HWC"), [("array", np.ascontiguousarray(planes))]).outputs
    assert (back == array).all()
