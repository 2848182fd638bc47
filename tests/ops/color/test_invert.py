"""invert against Pillow's ImageOps."""

import numpy as np
from PIL import Image, ImageOps

from stoker.ops import Invert


def test_invert_is_pillows(run_op, photo):
    for image in (photo, np.ascontiguousarray(photo[:, :, :1])):
        expected = np.asarray(ImageOps.invert(Image.fromarray(image.squeeze()))).reshape(
            image.shape
        )
        assert (run_op(Invert(1), [("image", image)]).outputs[0] == expected).all()


def test_applied_with_probability_p(run_op):
    applied = [int(run_op.draw(Invert(0.3), key, 9, 9)["apply"]) for key in range(2000)]
    assert abs(np.mean(applied) - 0.3) < 0.04
