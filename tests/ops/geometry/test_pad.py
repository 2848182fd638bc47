"""Padding against numpy.pad, in every mode; sizes, bounds and messages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.ops import Pad, ParameterError, State, StateError

side = st.integers(1, 40)
pads = st.integers(0, 60)


def grown(size, before, after, multiple):
    """Return how many pixels follow a side."""
    return after + (-(size + before + after)) % multiple


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(side, side),
    st.tuples(pads, pads, pads, pads),
    st.tuples(st.integers(1, 33), st.integers(1, 33)),
    st.sampled_from(["constant", "edge", "reflect"]),
    st.sampled_from([1, 3, 4]),
    st.sampled_from(["uint8", "uint16", "int32"]),
)
def test_padding_is_numpys(run_op, noise, size, padding, multiple, mode, channels, dtype):
    (h, w), (top, bottom, left, right) = size, padding
    bottom_in_all = grown(h, top, bottom, multiple[0])
    right_in_all = grown(w, left, right, multiple[1])
    image, mask = noise((h, w, channels)), noise((h, w), dtype=dtype)
    op = Pad(padding, multiple, mode, fill=(9, 8, 7, 6)[:channels], mask_fill=99)
    done = run_op(op, [("image", image), ("mask", mask)], bound=(h + 3, w + 5))
    wide = ((top, bottom_in_all), (left, right_in_all))
    if mode == "constant":
        planes = [
            np.pad(image[..., c], wide, constant_values=(9, 8, 7, 6)[c]) for c in range(channels)
        ]
        expected = np.stack(planes, -1)
        expected_mask = np.pad(mask, wide, constant_values=99)
    else:
        expected, expected_mask = np.pad(image, (*wide, (0, 0)), mode), np.pad(mask, wide, mode)
    assert (done.outputs[0] == expected).all()
    assert (done.outputs[1] == expected_mask).all()
    assert done.outputs[0].shape[0] % multiple[0] == done.outputs[0].shape[1] % multiple[1] == 0


def test_states():
    loose = State("image", "uint8", (None, 50, 3), (99, 50, 3))
    op = Pad((1, 2, 3, 4), multiple=(32, 1))
    assert str(op.declare((loose,))[0][0]) == "image uint8[<=128x57x3]"
    assert Pad(0).declare((loose,)) == ((loose,), 0)


def test_one_form():
    assert Pad(3) == Pad((3, 3)) == Pad((3, 3, 3, 3))
    assert Pad((1, 2)) == Pad((1, 1, 2, 2))


def test_messages():
    for padding in (-1, (1, 2, 3), "ab", 1.5, ()):
        with pytest.raises(ParameterError) as caught:
            Pad(padding)
        assert str(caught.value) == (
            "pad: expected padding to be an integer, (above and below, left and right), or (top, "
            f"bottom, left, right), from 0 to 65535, got {padding!r}"
        )
    with pytest.raises(ParameterError, match="mode to be one of constant, edge, reflect, got 'x'"):
        Pad(1, mode="x")
    with pytest.raises(StateError) as error:
        Pad(60000).declare((State.fixed("mask", "uint8", (9, 9)),))
    assert str(error.value) == (
        "pad: expected sides up to 65535, mask uint8[9x9] would become 120009x120009. Pad by less"
    )
    with pytest.raises(StateError, match="one for each channel"):
        Pad(1, fill=(1, 2)).declare((State.fixed("image", "uint8", (9, 9, 3)),))
