"""pad_to_size against numpy.pad, and its refusals."""

import numpy as np
import pytest

from stoker.ops import PadToSize, ParameterError, State, StateError


@pytest.mark.parametrize("place", ["top_left", "center"])
def test_pad_to_size_is_numpys_pad(run_op, noise, place):
    op = PadToSize((40, 51), place, 114, 7)
    for height, width in ((40, 51), (1, 1), (39, 50), (17, 30)):
        spare = 40 - height, 51 - width
        before = (0, 0) if place == "top_left" else (spare[0] // 2, spare[1] // 2)
        sides = [(b, s - b) for b, s in zip(before, spare, strict=True)]
        image, mask = noise((height, width, 3)), noise((height, width))
        done = run_op(op, [("image", image), ("mask", mask)], bound=(40, 51))
        assert (done.outputs[0] == np.pad(image, [*sides, (0, 0)], constant_values=114)).all()
        assert (done.outputs[1] == np.pad(mask, sides, constant_values=7)).all()
        assert done.states[0].is_fixed


def test_what_may_not_fit_is_refused():
    state = State("image", "uint8", (None, None, 3), (41, 51, 3))
    with pytest.raises(StateError) as caught:
        PadToSize((40, 51)).declare((state,))
    assert str(caught.value) == (
        "pad_to_size has no rule for image uint8[<=41x<=51x3]: expected sides up to 40x51. "
        "Resize or crop before it, or make the frame larger"
    )
    with pytest.raises(ParameterError, match="expected place to be one of top_left, center"):
        PadToSize(8, "right")
