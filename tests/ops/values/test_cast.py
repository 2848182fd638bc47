"""cast against NumPy's astype, for every pair of dtypes; what is refused; scalars too."""

import numpy as np
import pytest

from stoker.ops import Cast, State, StateError
from stoker.ops.values.cast import DTYPES


def source_of(dtype):
    """Values at the limits of a dtype, and some within."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        found = [0, -0.0, 1, -1, 0.1, 65504, 65519.9, 65520, 1e9, -1e9, 2**-24, 3e-8, 1e-30, 2049]
        return np.array(found * 100, dtype).reshape(20, 70)
    limits = np.iinfo(dtype)
    return np.linspace(limits.min, limits.max, 1400).astype(dtype).reshape(20, 70)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("source", ["uint8", "int32", "float32"])
def test_cast_is_numpys_or_refused(run_op, source, dtype):
    values = source_of(source)
    shorter = source == "float32" and dtype == "float16"
    if not (np.can_cast(source, dtype, "safe") or shorter):
        with pytest.raises(StateError, match=f"expected a dtype whose values {dtype} holds"):
            Cast(dtype).declare((State.fixed("array", source, values.shape),))
        return
    got = run_op(Cast(dtype), [("array", values)]).outputs[0]
    with np.errstate(over="ignore"):
        expected = values.astype(dtype)
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


def test_kinds_after_a_cast():
    def kind_of(kind, dtype, after):
        return Cast(after).declare((State.fixed(kind, dtype, (8, 9)),))[0][0].kind

    assert kind_of("image", "uint8", "float32") == "array"
    assert kind_of("image", "uint8", "uint8") == "image"
    assert kind_of("mask", "uint8", "int64") == "mask"


def test_a_label_stays_one_number():
    state = State.fixed("label", "uint8", ())
    assert Cast("int64").declare((state,))[0][0] == State.fixed("label", "int64", ())


def test_no_number_has_one_form_in_float16(run_op):
    words = np.array([0x7FC00000, 0x7F800001, 0xFFC01234, 0x7F800000], np.uint32)
    got = run_op(Cast("float16"), [("array", words.view(np.float32).reshape(1, 4))]).outputs[0]
    assert got.view(np.uint16).tolist() == [[0x7E00, 0x7E00, 0x7E00, 0x7C00]]
