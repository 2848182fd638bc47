"""one_hot against numpy.eye, for masks and labels, and numbers that are not classes."""

import numpy as np
import pytest

from stoker.ops import OneHot, State


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("source", ["uint8", "uint16", "int32"])
def test_masks(run_op, noise, source, dtype):
    mask = noise((13, 17), dtype=source, classes=9)
    done = run_op(OneHot(6, dtype), [("mask", mask)])
    expected = np.vstack([np.eye(6), np.zeros((3, 6))])[mask]
    assert done.states[0] == State.fixed("array", dtype, (13, 17, 6))
    assert (done.outputs[0] == expected).all()


def test_negative_classes_are_zeros(run_op):
    (got,) = run_op(OneHot(2), [("mask", np.array([[-1, 0, 1]], np.int32))]).outputs
    assert got.tolist() == [[[0, 0], [1, 0], [0, 1]]]


def test_a_label_becomes_a_vector():
    (state,), scratch = OneHot(5).declare((State.fixed("label", "int64", ()),))
    assert state == State.fixed("array", "float32", (5,))
    assert scratch == 0
    for number, expected in ((3, [0, 0, 0, 1, 0]), (5, [0] * 5), (-1, [0] * 5)):
        out = np.full(5, 9, np.float32)
        params = OneHot(5).params()
        OneHot.kernels["label"].plain(np.array([number]), out, params, None, None)
        assert out.tolist() == expected
