"""grayscale against Pillow's luma."""

import numpy as np
from PIL import Image

from stoker.ops import Grayscale


def test_grayscale_is_pillows(run_op, photo, noise):
    for image in (photo, noise((64, 65, 3))):
        expected = np.asarray(Image.fromarray(image).convert("L").convert("RGB"))
        assert (run_op(Grayscale(1), [("image", image)]).outputs[0] == expected).all()


def test_one_channel_is_gray_already(run_op, noise):
    image = noise((20, 30, 1))
    assert (run_op(Grayscale(1), [("image", image)]).outputs[0] == image).all()
