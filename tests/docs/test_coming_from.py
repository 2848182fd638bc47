"""Directions, formulas and defaults in the tables of the migration guides, computed again.

The peers are not installed here. Their formulas are written in NumPy and OpenCV, and their defaults
are those of Albumentations 2.0.8 and torchvision 0.28.
"""

from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy import ndimage
from skimage import data

from stoker import ops
from stoker.jit.arithmetic import PLAIN
from stoker.ops._testing.runner import OpRunner

GUIDES = Path(__file__).parents[2] / "docs/guides"
ALBUMENTATIONS = (GUIDES / "coming-from-albumentations.md").read_text()
TORCHVISION = (GUIDES / "coming-from-torchvision.md").read_text()
PHOTO = np.ascontiguousarray(data.astronaut()[:96, 150:246])
GRAY = np.float64([0.299, 0.587, 0.114])
NEIGHBORS = np.float64([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
RUNNER = OpRunner()


def run(op, image=PHOTO):
    return RUNNER(op, [("image", image)], arithmetic=PLAIN).outputs[0].astype(np.float64)


def sharpened(alpha):
    """Sharpen with lightness 1: (1 - alpha) x + alpha (9 x - the sum of the eight neighbors)."""
    around = ndimage.correlate(PHOTO.astype(np.float64), NEIGHBORS[..., None], mode="mirror")
    return ((1 - alpha) * PHOTO + alpha * (9.0 * PHOTO - around)).clip(0, 255)


def hue_saturation_value(hue, saturation, value):
    """Theirs: a turn and two offsets, where a pixel is not gray."""
    hsv = cv2.cvtColor(PHOTO, cv2.COLOR_RGB2HSV).astype(np.int64)
    hsv[..., 0] = (hsv[..., 0] + hue) % 180
    hsv[..., 1] = np.where(hsv[..., 1] == 0, 0, hsv[..., 1] + saturation)
    hsv[..., 2] += value
    return cv2.cvtColor(hsv.clip(0, 255).astype(np.uint8), cv2.COLOR_HSV2RGB)


def recipe(hue, saturation, value):
    """The guide's."""
    hsv = run(ops.RgbToHsv(), run(ops.Hue((hue / 180, hue / 180), p=1)).astype(np.uint8))
    shift = ops.RgbShift((0, 0), (saturation, saturation), (value, value), p=1)
    return run(ops.HsvToRgb(), run(shift, hsv.astype(np.uint8)).astype(np.uint8))


@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_sharpen(alpha):
    factor = 1 + 13 * alpha
    found = run(ops.Sharpness((factor, factor), p=1))
    inner = np.abs(found - sharpened(alpha))[1:-1, 1:-1]
    assert inner.max() <= factor / 2 + 0.5
    assert np.abs(run(ops.Sharpness((1.4, 1.4), p=1)) - sharpened(0.2))[1:-1, 1:-1].mean() > 3
    theirs, here = "`Sharpen(alpha=(0.2, 0.5), lightness=(1, 1))`", pair(1 + 13 * 0.2, 1 + 13 * 0.5)
    assert f"{theirs} | `ops.sharpness(image, factor_range={here})`" in ALBUMENTATIONS


@pytest.mark.parametrize("shifts", [(20, 30, -20), (-15, -25, 15)])
def test_hue_saturation_value(shifts):
    off = np.abs(recipe(*shifts) - hue_saturation_value(*shifts))
    colored = np.ptp(PHOTO, 2) > 0
    assert off[colored].mean() < 1
    factor = 1 + shifts[1] / 255
    multiplied = run(ops.Saturation((factor, factor), p=1))
    offset = hue_saturation_value(0, shifts[1], 0)
    assert np.abs(multiplied - offset).mean() > 2, "then the guide needs no recipe"


@pytest.mark.parametrize(
    ("op", "theirs"),
    [
        (ops.Gamma((1.2, 1.2), p=1), lambda x: 255 * (x / 255) ** (120 / 100)),
        (ops.Solarize(128, p=1), lambda x: np.where(x >= 0.5 * 255, 255 - x, x)),
        (ops.Posterize(4, p=1), lambda x: x // 16 * 16),
        (ops.Grayscale(p=1), lambda x: np.repeat(x @ GRAY, 3).reshape(x.shape)),
        (ops.Brightness((1.2, 1.2), p=1), lambda x: (1.2 * x).clip(0, 255)),
        (
            ops.RgbShift((20, 20), (9, 9), (-9, -9), p=1),
            lambda x: (x + np.array([20, 9, -9])).clip(0, 255),
        ),
        (ops.BoxBlur((5, 5), p=1), lambda x: cv2.blur(x, (5, 5))),
        (ops.GaussianBlur(7, (1.5, 1.5), p=1), lambda x: cv2.GaussianBlur(x, (7, 7), 1.5)),
        (ops.Rot90(1, p=1), np.rot90),
    ],
)
def test_formulas(op, theirs):
    assert np.abs(run(op) - theirs(PHOTO.astype(np.float64))).max() <= 1


def test_noise_counts_in_levels():
    noise = run(ops.GaussianNoise((25.5, 25.5), p=1), np.full((99, 99, 3), 128, np.uint8)) - 128
    assert abs(noise.std() - 0.1 * 255) < 0.4
    assert "`sigma=0.1` is `sigma_range=(25.5, 25.5)`" in TORCHVISION
    theirs = "`GaussNoise(std_range=(0.2, 0.44))`"
    assert (
        f"{theirs} | `ops.gaussian_noise(image, sigma_range={pair(255 * 0.2, 255 * 0.44)})`"
        in ALBUMENTATIONS
    )


def pair(low, high):
    return f"({low:g}, {high:g})"


def place(op):
    """Return the new place of a spot right of the center: (down, right) of the center."""
    image = np.zeros((41, 41, 1), np.uint8)
    image[19:22, 33:36] = 255
    found = run(op, image)[..., 0]
    return np.array(ndimage.center_of_mass(found)) - 20


@pytest.mark.parametrize(
    ("op", "up"),
    [(ops.Rotate((30, 30)), True), (ops.SafeRotate((30, 30)), True), (ops.Affine((30, 30)), False)],
)
def test_directions_of_turns(op, up):
    """Counter-clockwise moves it up; torchvision's rotate does, and its affine does not."""
    assert (place(op)[0] < -3) == up


def test_shifts_go_right_and_down_and_shears_lower_parts_left():
    assert place(ops.Affine(0, (0.1, 0.1, 0.2, 0.2))) == pytest.approx((8, 18), abs=0.1)
    across = np.zeros((41, 41, 1), np.uint8)
    across[33:36, 19:22] = 255
    moved = run(ops.Affine(0, shear=(20, 20)), across)[..., 0]
    to_the_left = 14 * np.tan(np.radians(20))
    assert ndimage.center_of_mass(moved)[1] == pytest.approx(20 - to_the_left, abs=0.1)


def test_motion_blur_is_counter_clockwise_and_centered():
    image = np.zeros((31, 31, 1), np.uint8)
    image[15, 15] = 255
    found = run(ops.MotionBlur((15, 15), p=1, degrees=(30, 30)), image)[..., 0]
    rows, columns = np.nonzero(found)
    assert np.polyfit(columns - 15, 15 - rows, 1)[0] == pytest.approx(
        np.tan(np.radians(30)), abs=0.1
    )
    assert ndimage.center_of_mass(found) == pytest.approx((15, 15), abs=0.01)


def test_perspective_moves_corners_inward():
    found = run(ops.Perspective(0.5, p=1, fill=(255, 0, 255)))
    corners = found[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert (corners == [255, 0, 255]).all(), "Albumentations' shows the inside, and fills nothing"


def test_a_color_jitter_of_their_defaults():
    """ColorJitter(brightness=(0.8, 1.2), hue=(-0.5, 0.5)) draws from these ranges."""
    op = ops.ColorJitter(0.2, 0.2, 0.2, 0.5)
    drawn = [op.sample(9, 9, id=row) for row in range(300)]
    for name, low, high in (("brightness", 0.8, 1.2), ("saturation", 0.8, 1.2), ("hue", -0.5, 0.5)):
        values = [one[name] for one in drawn]
        assert low <= min(values) < low + 0.02
        assert high - 0.02 < max(values) <= high
    assert len({tuple(one["order"]) for one in drawn}) == 24
