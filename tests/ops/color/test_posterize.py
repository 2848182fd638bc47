"""posterize against Pillow's ImageOps."""

import numpy as np
from PIL import Image, ImageOps

from stoker.ops import Posterize


def test_posterize_is_pillows(run_op, photo):
    image = np.ascontiguousarray(photo[:90, :120])
    for bits in range(1, 9):
        expected = np.asarray(ImageOps.posterize(Image.fromarray(image), bits))
        got = run_op(Posterize(bits, 1), [("image", image)]).outputs[0]
        assert (got == expected).all(), bits
    assert not run_op(Posterize(0, 1), [("image", image)]).outputs[0].any()
