"""rgb_to_ycbcr, ycbcr_to_rgb, rgb_to_hsv, hsv_to_rgb against exact formulas and libraries."""

import colorsys

import cv2
import numpy as np
import pytest
from PIL import Image

from stoker.ops import HsvToRgb, RgbToHsv, RgbToYcbcr, State, StateError, YcbcrToRgb, registered

BT601 = np.array(
    [[0.299, 0.587, 0.114], [-0.168735892, -0.331264108, 0.5], [0.5, -0.418687589, -0.081312411]]
)


def convert(run_op, op, image):
    return run_op(op, [("image", image)]).outputs[0].astype(int)


@pytest.fixture(scope="module")
def colors(photo, noise):
    """A photograph, noise, all corners of the cube, grays, and every pair of least and greatest."""
    corners = np.array(np.meshgrid([0, 255], [0, 255], [0, 255])).T.reshape(1, -1, 3)
    grays = np.repeat(np.arange(256)[:, None], 3, 1)[None]
    low, high = np.mgrid[:256, :256]
    pairs = [np.stack(order, -1) for order in ((low, high, low), (high, (low + high) // 2, low))]
    made = [image.astype(np.uint8) for image in (corners, grays, *pairs)]
    return [photo, noise((150, 170, 3)), *made]


def test_ycbcr_is_the_exact_one_rounded_and_pillows_within_a_level(run_op, colors):
    for image in colors:
        got = convert(run_op, RgbToYcbcr(), image)
        exact = np.minimum(image @ BT601.T + [0, 128, 128], 255.49)
        assert np.abs(got - exact).max() <= 0.502
        pillow = np.asarray(Image.fromarray(image).convert("YCbCr")).astype(int)
        assert np.abs(got - pillow).max() <= 1


def test_rgb_of_ycbcr_is_the_exact_one_rounded_and_pillows_within_a_level(run_op, colors):
    for image in colors:
        got = convert(run_op, YcbcrToRgb(), image)
        y, b, r = image[..., 0], image[..., 1] - 128.0, image[..., 2] - 128.0
        exact = np.stack([y + 1.402 * r, y - 0.344136286 * b - 0.714136286 * r, y + 1.772 * b], -1)
        assert np.abs(got - np.clip(exact, 0, 255)).max() <= 0.51
        tagged = Image.merge("YCbCr", [Image.fromarray(image[..., c]) for c in range(3)])
        assert np.abs(got - np.asarray(tagged.convert("RGB")).astype(int)).max() <= 1


def test_hsv_is_opencvs(run_op, colors):
    for image in colors:
        assert (convert(run_op, RgbToHsv(), image) == cv2.cvtColor(image, cv2.COLOR_RGB2HSV)).all()


def test_rgb_of_hsv_is_the_exact_one_rounded_and_opencvs_within_a_level(run_op, colors):
    for image in [color // np.array([2, 1, 1], np.uint8) for color in colors]:
        got = convert(run_op, HsvToRgb(), image)
        assert np.abs(got - cv2.cvtColor(image, cv2.COLOR_HSV2RGB)).max() <= 1
        for n in range(0, image[..., 0].size, 97):
            y, x = divmod(n, image.shape[1])
            hue, saturation, value = (int(v) for v in image[y, x])
            exact = colorsys.hsv_to_rgb(hue / 180, saturation / 255, value / 255)
            assert np.abs(got[y, x] - 255 * np.array(exact)).max() <= 0.5 + 1e-9


def test_a_hue_of_180_begins_again(run_op, noise):
    image = noise((10, 11, 3))
    turned = image.copy()
    image[..., 0] %= 76
    turned[..., 0] = image[..., 0] + 180
    assert (convert(run_op, HsvToRgb(), image) == convert(run_op, HsvToRgb(), turned)).all()


def test_there_and_back_stays_near(run_op, photo):
    back = convert(run_op, YcbcrToRgb(), convert(run_op, RgbToYcbcr(), photo).astype(np.uint8))
    assert np.abs(back - photo).max() <= 2
    back = convert(run_op, HsvToRgb(), convert(run_op, RgbToHsv(), photo).astype(np.uint8))
    assert np.abs(back - photo).mean() < 1.5


@pytest.mark.parametrize("name", ["rgb_to_ycbcr", "ycbcr_to_rgb", "rgb_to_hsv", "hsv_to_rgb"])
def test_three_channels_are_demanded(name):
    with pytest.raises(StateError) as caught:
        registered()[name]().declare((State.fixed("image", "uint8", (8, 9, 1)),))
    assert str(caught.value) == (
        f"{name} has no rule for image uint8[8x9x1]: expected an image of 3 channels. Call "
        f"{name} where the image has three channels; to_rgb makes them of gray, and drops alpha"
    )
