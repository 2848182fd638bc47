"""rgb_shift against plain arithmetic: each channel plus a constant, as Albumentations has it."""

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import ParameterError, RgbShift, State, StateError, make
from stoker.rng.draws import uniform_range
from stoker.rng.streams import make_key


@pytest.fixture
def shifted(run_op, as_record):
    """Run the op with given shifts."""

    def run(image, shift, arithmetic=COMPILED):
        op = RgbShift(p=1)
        record = as_record(op.record)
        record["apply"], record["shift"] = 1, shift
        (out,) = run_op(op, [("image", image)], record=record, arithmetic=arithmetic).outputs
        return out

    return run


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
@pytest.mark.parametrize("shift", [(20, -20, 0), (255, -255, 3.5), (-0.5, 0.49, -3.5)])
def test_levels_are_shifted_by_whole_levels(shifted, photo, shift, arithmetic):
    steps = np.floor(np.array(shift) + 0.5).astype(int)
    expected = np.clip(photo.astype(int) + steps, 0, 255)
    assert np.array_equal(shifted(photo, shift, arithmetic), expected)


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_floats_are_shifted_in_the_same_unit(shifted, photo, arithmetic):
    levels = shifted(photo, (20, -31, 7))
    floats = shifted((photo / 255).astype(np.float32), (20, -31, 7), arithmetic)
    assert np.abs(floats * 255 - levels).max() < 1e-3
    awkward = np.array([[[np.nan, np.inf, -np.inf]]], np.float32)
    assert shifted(awkward, (1, 2, 3), arithmetic).tolist() == [[[0, 1, 0]]]


def test_each_channel_draws_for_itself(run_op, photo):
    op = RgbShift(red_range=(1, 9), green_range=(-50, -40), blue_range=(0, 0), p=1)
    record = run_op.draw(op, 11, *photo.shape[:2], arithmetic=PLAIN)
    red, green, blue = np.asarray(record["shift"])
    assert 1 <= red < 9
    assert -50 <= green < -40
    assert blue == 0


def test_the_draws_are_numbers_1_to_3():
    """A draw is numbered, so a new parameter moves none."""
    op, key = RgbShift(p=1), make_key(1, 2, 3, 4)
    record = np.zeros(1, op.record)[0]
    params = np.zeros(1, op.parameters)
    params[0] = op.params()[()]
    op.draw(key, params[0], 5, 6, record)
    assert record["shift"].tolist() == [uniform_range(key, n, -20.0, 20.0) for n in (1, 2, 3)]


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_other_images_are_rejected(channels):
    with pytest.raises(
        StateError, match=r"rgb_shift has no rule for .*: expected an image of 3 channels"
    ):
        RgbShift().declare((State.fixed("image", "uint8", (4, 4, channels)),))


@pytest.mark.parametrize("name", ["red_range", "green_range", "blue_range"])
def test_wrong_parameters_are_named(name):
    with pytest.raises(ParameterError, match=rf"rgb_shift: expected {name} to be \(low, high\)"):
        make("rgb_shift", {name: (3, -3)})
    with pytest.raises(ParameterError, match="from -255 to 255"):
        make("rgb_shift", {name: (-300, 0)})
