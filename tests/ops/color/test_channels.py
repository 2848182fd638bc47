"""to_gray and to_rgb against Pillow, of every number of channels, and what they join."""

import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.ops import ToGray, ToRgb
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
SIZES = ((33, 65), (1, 1), (1, 2))


def pillows(image, mode):
    """What Pillow converts an image to, (H, W, C)."""
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    assert picture.mode == MODES[image.shape[2]]
    return np.asarray(picture.convert(mode)).reshape(*image.shape[:2], -1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", MODES)
def test_levels_are_pillows(run_op, noise, channels, size):
    image = noise((*size, channels))
    for op, mode in ((ToGray(), "L"), (ToRgb(), "RGB")):
        (got,) = run_op(op, [("image", image)]).outputs
        assert np.array_equal(got, pillows(image, mode)), mode


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", MODES)
def test_floats_are_those_of_float64(run_op, channels, size):
    image = np.random.default_rng(channels).normal(size=(*size, channels)).astype(np.float32)
    colors = image[..., : 1 if channels < 3 else 3]
    weights = np.array([1.0] if channels < 3 else [19595, 38470, 7471]) / (1, 65536)[channels > 2]
    (got,) = run_op(ToGray(), [("image", image)]).outputs
    assert np.abs(got[..., 0] - colors.astype(np.float64) @ weights).max() < 1e-6
    (got,) = run_op(ToRgb(), [("image", image)]).outputs
    assert np.array_equal(got, np.broadcast_to(colors, (*size, 3)))


def test_what_is_no_number(run_op):
    image = np.float32([[[np.nan, 1, 2], [np.inf, -np.inf, 0], [np.inf, 1, 1]]])
    (got,) = run_op(ToGray(), [("image", image)]).outputs
    assert got.view(np.uint32).ravel().tolist() == [0x7FC00000, 0x7FC00000, 0x7F800000]


def test_gray_and_colors_join_through_them():
    fields = {"image": np.full((8, 9, 3), 7, np.uint8), "gray": np.full((8, 9, 1), 5, np.uint8)}

    def joined(convert_gray, convert_image):
        @pipeline
        def train(sample):
            image = convert_image(sample.image)
            if sample.label > 2:
                image = convert_gray(sample.gray)
            return {"image": image}

        return [train(fields | {"label": label})["image"] for label in (0, 3)]

    for made in (joined(ops.to_rgb, lambda v: v), joined(lambda v: v, ops.to_gray)):
        assert made[0].shape == made[1].shape
        assert [image.mean() for image in made] == [7, 5]
    with pytest.raises(BuildError, match=r"convert one branch with an op \(to_gray, to_rgb, ...\)"):
        joined(lambda v: v, lambda v: v)
