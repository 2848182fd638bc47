"""solarize against Pillow's ImageOps, at every threshold."""

import numpy as np
from PIL import Image, ImageOps

from stoker.ops import Solarize


def test_solarize_is_pillows(run_op, photo):
    image = np.ascontiguousarray(photo[:90, :120])
    for threshold in (*range(0, 256, 15), 1, 254, 256):
        expected = np.asarray(ImageOps.solarize(Image.fromarray(image), threshold))
        got = run_op(Solarize(threshold, 1), [("image", image)]).outputs[0]
        assert (got == expected).all(), threshold
