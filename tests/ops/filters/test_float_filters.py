"""Images of floats and filters: against OpenCV and NumPy, and NaN everywhere."""

import cv2
import numpy as np
import pytest
from scipy.ndimage import convolve1d, median_filter

from stoker.jit.arithmetic import PLAIN
from stoker.ops import StateError, make

COLORS = (
    "autocontrast",
    "box_blur",
    "brightness",
    "channel_shuffle",
    "color_jitter",
    "contrast",
    "gamma",
    "gaussian_blur",
    "gaussian_noise",
    "grayscale",
    "hsv_to_rgb",
    "hue",
    "invert",
    "median_blur",
    "motion_blur",
    "normalize",
    "rgb_to_hsv",
    "rgb_to_ycbcr",
    "salt_and_pepper",
    "saturation",
    "sharpness",
    "solarize",
    "ycbcr_to_rgb",
)
ODD = np.uint32(
    [
        *(0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FC12345, 0xFF812345, 0x7F800000, 0xFF800000),
        *(0x80000000, 0, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x3F800001),
    ]
)
"""Bits of NaN, infinities, zeros, and the ends of float32."""


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def odd(shape, seed):
    """Floats of which every eighth or so is one of `ODD`."""
    image, draw = normal(shape, seed), np.random.default_rng(seed)
    at = draw.integers(0, image.size, image.size // 8 + 1)
    image.view(np.uint32).reshape(-1)[at] = ODD[draw.integers(0, len(ODD), len(at))]
    return image


@pytest.mark.slow
@pytest.mark.parametrize("name", COLORS)
def test_what_is_no_number_is_the_same_compiled_and_plain(name, run_op, examples):
    for params in examples[name]:
        op, tried = make(name, params), 0
        for seed, (height, width) in enumerate([(1, 1), (2, 3), (17, 13), (33, 64), (40, 97)]):
            for channels in (1, 2, 3, 4):
                values = [("image", odd((height, width, channels), seed))]
                try:
                    (fast,) = run_op(op, values, seed).outputs
                except StateError:
                    continue
                (slow,) = run_op(op, values, seed, arithmetic=PLAIN).outputs
                assert fast.tobytes() == slow.tobytes()
                tried += 1
        assert tried


def run(name, params, image, run_op, **more):
    (got,) = run_op(make(name, params | {"p": 1}), [("image", image)], **more).outputs
    return got


def opencv(filtered):
    return filtered if filtered.ndim == 3 else filtered[..., None]


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("size", "sigma"), [(3, 0.8), (7, 1.5), (23, 9)])
def test_gaussian_blur_is_opencvs(channels, size, sigma, run_op):
    image = normal((40, 57, channels))
    got = run("gaussian_blur", {"kernel_size": size, "sigma_range": (sigma, sigma)}, image, run_op)
    border = cv2.BORDER_REFLECT_101
    expected = opencv(cv2.GaussianBlur(image, (size, size), sigma, borderType=border))
    assert np.abs(got - expected).max() < 1e-6


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [1, 3, 5, 9, 31])
def test_box_blur_is_opencvs(channels, size, run_op):
    image = normal((40, 57, channels))
    got = run("box_blur", {"size_range": (size, size)}, image, run_op)
    expected = opencv(cv2.blur(image, (size, size), borderType=cv2.BORDER_REFLECT_101))
    assert np.abs(got - expected).max() < 1e-6


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_median_blur_is_opencvs(channels, size, run_op):
    image = normal((40, 57, channels))
    got = run("median_blur", {"size_range": (size, size)}, image, run_op)
    assert (got == opencv(cv2.medianBlur(image, size))).all()


@pytest.mark.parametrize("size", [3, 5, 7])
def test_median_blur_of_wide_images_is_scipys(size, run_op):
    image = normal((9, 531, 3))
    image[:4] = abs(image[:4])
    for part in (image, abs(image)):
        got = run("median_blur", {"size_range": (size, size)}, part, run_op)
        assert (got == median_filter(part, (size, size, 1), mode="nearest")).all()


@pytest.mark.parametrize("width", [1, 2, 5, 16, 17, 21, 22, 30, 200])
def test_blurs_of_any_width_are_scipys(width, run_op):
    """Runs of 15 values and fewer, up to 63, and longer are summed in ways of their own."""
    image = normal((12, width, 3))
    got = run("gaussian_blur", {"kernel_size": 5, "sigma_range": (1.1, 1.1)}, image, run_op)
    bell = np.exp(-0.5 * (np.arange(-2, 3) / 1.1) ** 2)
    wide = np.float64(image)
    for axis in (0, 1):
        wide = convolve1d(wide, bell / bell.sum(), axis, mode="mirror")
    assert np.abs(got - wide).max() < 1e-6


@pytest.mark.parametrize("size", [3, 5, 7, 9, 15])
def test_median_blur_is_numpys(size, run_op):
    image = normal((12, 19, 2))
    image[3:5, 4:9] = np.inf
    image[8:, :4] = -np.inf
    got = run("median_blur", {"size_range": (size, size)}, image, run_op)
    wide = np.pad(image, ((size // 2,) * 2, (size // 2,) * 2, (0, 0)), "edge")
    windows = np.lib.stride_tricks.sliding_window_view(wide, (size, size), (0, 1))
    assert (got == np.median(windows, (-2, -1))).all()


def test_a_median_counts_what_is_no_number_as_the_greatest(run_op):
    image = np.full((5, 5, 1), np.nan, np.float32)
    image[:, :3] = 2.5
    got = run("median_blur", {"size_range": (3, 3)}, image, run_op)[2, :, 0]
    assert got[:3].tolist() == [2.5] * 3
    assert got[3:].view(np.uint32).tolist() == [0x7FC00000] * 2


@pytest.mark.parametrize("angle", [0, 90])
def test_motion_blur_along_an_axis_is_opencvs(angle, run_op):
    image = normal((40, 57, 3))
    op = {"size_range": (9, 9), "degrees": (angle, angle)}
    got = run("motion_blur", op, image, run_op)
    window = (1, 9) if angle else (9, 1)
    expected = cv2.blur(image, window, borderType=cv2.BORDER_REFLECT_101)
    assert np.abs(got - expected).max() < 1e-6


def test_filters_keep_a_flat_image(run_op):
    image = np.full((9, 30, 3), 0.7, np.float32)
    for name in ("gaussian_blur", "box_blur", "motion_blur", "median_blur"):
        for key in range(5):
            assert np.abs(run(name, {}, image, run_op, key=key) - image).max() < 2e-7


def test_a_blur_reaches_no_farther_than_its_window(run_op):
    """One NaN spoils its windows alone: there are no running sums."""
    image = normal((30, 40, 1))
    image[10, 20] = np.inf
    image[20, 10] = np.nan
    spoilt = np.zeros((30, 40), bool)
    spoilt[8:13, 18:23] = spoilt[18:23, 8:13] = True
    for name in ("gaussian_blur", "box_blur"):
        more = {"kernel_size": 5} if name == "gaussian_blur" else {"size_range": (5, 5)}
        got = run(name, more, image, run_op)[..., 0]
        assert (np.isfinite(got) == ~spoilt).all()
        assert set(got.view(np.uint32)[np.isnan(got)].tolist()) == {0x7FC00000}


def test_noise_is_that_of_levels_over_255(run_op):
    image = np.full((200, 200, 3), 0.5, np.float32)
    got = run("gaussian_noise", {"sigma_range": (12, 12)}, image, run_op)
    assert abs((got - 0.5).std() * 255 - 12) < 0.1


def test_salt_is_1_and_pepper_0(run_op):
    image = np.full((100, 100, 3), 0.5, np.float32)
    got = run("salt_and_pepper", {"amount_range": (0.5, 0.5)}, image, run_op)
    assert set(np.unique(got).tolist()) == {0, 0.5, 1}
    assert (got == got[..., :1]).all()


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_normalize_of_floats_to_float16(layout, run_op):
    image = normal((9, 14, 3))
    image[0, 0] = np.nan
    op = make("normalize", {"dtype": "float16", "layout": layout})
    (got,) = run_op(op, [("image", image)]).outputs
    mean, std = np.float32([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = ((image - mean) * np.float32(1 / std)).astype(np.float16)
    expected = expected.transpose(2, 0, 1) if layout == "CHW" else expected
    assert got.dtype == np.float16
    assert np.array_equal(got, expected, equal_nan=True)
    assert set(got.view(np.uint16)[np.isnan(got)].tolist()) == {0x7E00}
