"""equalize and autocontrast against Pillow's ImageOps, bit for bit, on few, many and odd levels."""

import numpy as np
import pytest
from PIL import Image, ImageOps

from stoker.ops import Autocontrast, Equalize


def pictures(photo, noise):
    """Pictures of one level, two, a narrow range, three different channels, one channel."""
    yield photo
    yield noise((64, 65, 3))
    yield noise((40, 50, 3), classes=2) + np.uint8(9)
    yield noise((40, 50, 3), classes=37) + np.uint8(190)
    yield np.full((20, 20, 3), 77, np.uint8)
    yield noise((23, 22, 1))
    yield noise((30, 31, 3)) // np.array([1, 5, 100], np.uint8)
    yield noise((5, 7, 3))


@pytest.mark.parametrize(
    ("op", "pillows"), [(Equalize(1), ImageOps.equalize), (Autocontrast(1), ImageOps.autocontrast)]
)
def test_levels_are_pillows(run_op, photo, noise, op, pillows):
    for image in pictures(photo, noise):
        expected = np.asarray(pillows(Image.fromarray(image.squeeze()))).reshape(image.shape)
        got = run_op(op, [("image", image)]).outputs[0]
        assert (got == expected).all()
