"""grayscale against Pillow's luma."""

import numpy as np
import pytest
from PIL import Image

from stoker.ops import Grayscale, State, StateError


def test_grayscale_is_pillows(run_op, photo, noise):
    for image in (photo, noise((64, 65, 3))):
        expected = np.asarray(Image.fromarray(image).convert("L").convert("RGB"))
        assert (run_op(Grayscale(1), [("image", image)]).outputs[0] == expected).all()


def test_one_channel_is_gray_already(run_op, noise):
    image = noise((20, 30, 1))
    assert (run_op(Grayscale(1), [("image", image)]).outputs[0] == image).all()


def test_other_channels_are_refused():
    with pytest.raises(StateError) as caught:
        Grayscale().declare((State.fixed("image", "uint8", (8, 8, 4)),))
    assert str(caught.value) == (
        "grayscale has no rule for image uint8[8x8x4]: expected an image of 1 (gray) or 3 channels "
        "(red, green, blue). Drop the other channels first"
    )
