"""equalize against Pillow's ImageOps, bit for bit, on pictures of few, many and odd levels."""

import numpy as np
from PIL import Image, ImageOps

from stoker.ops import Equalize, State
from stoker.rng.jit import compiled


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


def test_equalize_is_pillows(run_op, photo, noise):
    for image in pictures(photo, noise):
        expected = np.asarray(ImageOps.equalize(Image.fromarray(image.squeeze()))).reshape(
            image.shape
        )
        got = run_op(Equalize(1), [("image", image)]).outputs[0]
        assert (got == expected).all()


def test_in_place_is_the_same(run_op, as_record, photo):
    op = Equalize(1)
    expected = run_op(op, [("image", photo)]).outputs[0]
    image, record = photo.copy(), as_record(op.record)
    record["apply"] = 1
    scratch = np.empty(op.declare((State.fixed("image", "uint8", photo.shape),))[1], np.uint8)
    compiled(op.kernels["image"].run)(image, image, as_record(op.parameters), record, scratch)
    assert (image == expected).all()
