"""Images of floats and what changes colors: against torchvision, scikit-image, and levels."""

import colorsys

import cv2
import numpy as np
import pytest
from skimage.color import hsv2rgb, rgb2hsv

from stoker.ops import State, StateError, make, registered

GRAYS = {"contrast", "saturation", "grayscale"}
"""Ops whose gray has Pillow's weights; torchvision's 0.2989 is 1e-4 less than red's."""

# Results of torchvision 0.28 for floats, the middle 2 by 2 pixels of 4 by 4.
TORCHVISION = [
    (
        "brightness",
        {"factor_range": (1.25, 1.25)},
        [
            [0.039062, 0.0, 0.058594],
            [0.175781, 1.0, 0.234375],
            [1.0, 0.214844, 1.0],
            [0.996094, 1.0, 0.136719],
        ],
    ),
    (
        "contrast",
        {"factor_range": (1.5, 1.5)},
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.030563], [1.0, 0.007126, 1.0], [0.944626, 1.0, 0.0]],
    ),
    (
        "saturation",
        {"factor_range": (0.5, 0.5)},
        [
            [0.022967, 0.007342, 0.03078],
            [0.395516, 0.825204, 0.418954],
            [0.741404, 0.335154, 0.702341],
            [0.771405, 0.794843, 0.427655],
        ],
    ),
    (
        "hue",
        {"turn_range": (0.3, 0.3)},
        [
            [0.046875, 0.021875, 0.0],
            [0.140625, 0.265625, 1.0],
            [0.984375, 0.9, 0.171875],
            [0.109375, 0.84375, 0.74375],
        ],
    ),
    (
        "sharpness",
        {"factor_range": (1.75, 1.75)},
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0622], [1.0, 0.0, 1.0], [0.93119, 1.0, 0.0]],
    ),
    (
        "gamma",
        {"gamma_range": (0.5, 0.5)},
        [
            [0.176777, 0.0, 0.216506],
            [0.375, 1.0, 0.433013],
            [0.992157, 0.414578, 0.951972],
            [0.892679, 0.918559, 0.330719],
        ],
    ),
    (
        "autocontrast",
        {},
        [
            [0.0, 0.0, 0.032258],
            [0.114754, 1.0, 0.177419],
            [1.0, 0.171875, 0.919355],
            [0.803279, 0.84375, 0.096774],
        ],
    ),
    (
        "solarize",
        {},
        [
            [0.03125, 0.0, 0.046875],
            [0.140625, 0.0, 0.1875],
            [0.015625, 0.171875, 0.09375],
            [0.203125, 0.15625, 0.109375],
        ],
    ),
    (
        "invert",
        {},
        [
            [0.96875, 1.0, 0.953125],
            [0.859375, 0.0, 0.8125],
            [0.015625, 0.828125, 0.09375],
            [0.203125, 0.15625, 0.890625],
        ],
    ),
    (
        "gaussian_blur",
        {"kernel_size": 3, "sigma_range": (0.75, 0.75)},
        [
            [0.441759, 0.374311, 0.298838],
            [0.417242, 0.612039, 0.343617],
            [0.55652, 0.449632, 0.463198],
            [0.622552, 0.60649, 0.320884],
        ],
    ),
    (
        "grayscale",
        {},
        [
            [0.014684, 0.014684, 0.014684],
            [0.650408, 0.650408, 0.650408],
            [0.498433, 0.498433, 0.498433],
            [0.745936, 0.745936, 0.745936],
        ],
    ),
    (
        "normalize",
        {},
        [
            [-1.981441, -2.035714, -1.596111],
            [-1.503821, 2.428571, -0.971111],
            [2.180677, -1.268415, 2.223333],
            [1.361899, 1.731027, -1.318333],
        ],
    ),
]


@pytest.mark.parametrize(("name", "params", "expected"), TORCHVISION, ids=lambda v: str(v)[:14])
def test_torchvision(name, params, expected, run_op):
    image = np.random.default_rng(5).integers(0, 65, (4, 4, 3)).astype(np.float32) / 64
    op = make(name, params | ({} if name == "normalize" else {"p": 1}))
    (got,) = run_op(op, [("image", image)]).outputs
    most = 2e-4 if name in GRAYS else 1e-6
    assert got.dtype == np.float32
    assert np.abs(got[1:3, 1:3].reshape(4, 3) - expected).max() < most


OF_LEVELS = [
    ("brightness", {"factor_range": (0, 3)}, 0.51),
    ("contrast", {"factor_range": (0, 3)}, 1.8),  # the mean gray of levels is rounded: half a level
    ("saturation", {"factor_range": (0, 3)}, 1.6),  # and so is the gray of a pixel
    ("grayscale", {}, 0.51),
    ("hue", {"turn_range": (-0.5, 0.5)}, 0.51),
    ("gamma", {}, 0.51),
    ("autocontrast", {}, 1.01),
    ("solarize", {"threshold": 77}, 0.01),
    ("invert", {}, 0.01),
    ("channel_shuffle", {}, 0.01),
    ("sharpness", {"factor_range": (0, 3)}, 1.6),
    ("gaussian_blur", {"kernel_size": 9}, 0.52),
    ("box_blur", {}, 0.51),
    ("median_blur", {"size_range": (1, 9)}, 0.01),
    ("motion_blur", {"size_range": (3, 15)}, 0.51),
    ("gaussian_noise", {}, 0.51),
    ("salt_and_pepper", {}, 0.01),
    ("rgb_to_ycbcr", {}, 1.01),  # half a level of it: 128 is not half of 255
    ("color_jitter", {"brightness": 0.3, "saturation": 0.4, "hue": 0.2}, 3.01),
    ("normalize", {"mean": 0, "std": 1}, 0.01),
]


@pytest.mark.parametrize(("name", "params", "most"), OF_LEVELS, ids=lambda v: str(v)[:15])
def test_levels(name, params, most, run_op, photo):
    """An op of floats does what the op of levels does, by the same record."""
    image = np.ascontiguousarray(photo[40:140, 100:220])
    floats = run_op(make("to_float", {}), [("image", image)]).outputs[0]
    certain = name in ("rgb_to_ycbcr", "color_jitter", "normalize")
    op = make(name, params | ({} if certain else {"p": 1}))
    for key in range(3):
        levels = run_op(op, [("image", image)], key)
        of_floats = run_op(op, [("image", floats)], key)
        assert levels.record == of_floats.record
        scale = 1 if name == "normalize" else 255
        apart = np.abs(of_floats.outputs[0].astype(float) * scale - levels.outputs[0])
        assert apart.max() * (255 / scale) < most


def colors(count, seed=0):
    draw = np.random.default_rng(seed)
    image = draw.random((count, count, 3)).astype(np.float32)
    image[::3] = np.round(image[::3] * 2) / 2  # grays, and equal channels
    return image


def test_hsv_is_scikit_images(run_op):
    image = colors(60)
    (got,) = run_op(make("rgb_to_hsv", {}), [("image", image)]).outputs
    expected = rgb2hsv(image.astype(float))
    apart = np.abs(got - expected)
    apart[..., 0] = np.minimum(apart[..., 0], 1 - apart[..., 0])
    assert apart.max() < 1e-6
    (back,) = run_op(make("hsv_to_rgb", {}), [("image", got)]).outputs
    assert np.abs(back - hsv2rgb(got.astype(float))).max() < 2e-6
    assert np.abs(back - image).max() < 2e-6


def test_hues_of_any_turn(run_op):
    hues = np.float32([-7.25, -1e-9, 0, 0.999, 1, 3.75, 2**22 + 0.5, 2**24, np.inf, np.nan])
    image = np.stack([hues, np.full(10, 0.5), np.full(10, 0.75)], -1)[None].astype(np.float32)
    (got,) = run_op(make("hsv_to_rgb", {}), [("image", image)]).outputs
    turns = [float(h) % 1 if abs(h) < 2**23 else 0 for h in hues]
    expected = [colorsys.hsv_to_rgb(h, 0.5, 0.75) for h in turns]
    assert np.abs(got[0] - expected).max() < 1e-6


def test_ycbcr_is_that_of_jpeg_files(run_op):
    image = colors(60)
    (got,) = run_op(make("rgb_to_ycbcr", {}), [("image", image)]).outputs
    red, green, blue = np.moveaxis(image.astype(float), -1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    expected = [luma, (blue - luma) / 1.772 + 0.5, (red - luma) / 1.402 + 0.5]
    assert np.abs(got - np.stack(expected, -1)).max() < 2e-5
    y, cr, cb = np.moveaxis(cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb), -1, 0)
    assert np.abs(got - np.stack([y, cb, cr], -1)).max() < 1e-3
    (back,) = run_op(make("ycbcr_to_rgb", {}), [("image", got)]).outputs
    assert np.abs(back - image).max() < 4e-5


def test_solarize_counts_levels(run_op):
    """What `to_float` makes of the threshold is the least that is inverted; 256 inverts none."""
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    (image,) = run_op(make("to_float", {}), [("image", levels)]).outputs
    for threshold in (0, 1, 77, 128, 254, 255, 256):
        op = make("solarize", {"threshold": threshold, "p": 1})
        (got,) = run_op(op, [("image", image)]).outputs
        assert (got == np.where(levels >= threshold, 1 - image, image)).all()
    (got,) = run_op(make("solarize", {"threshold": 256, "p": 1}), [("image", image + 9)]).outputs
    assert (got == image + 9).all()


CLIPPED = [
    ("brightness", {"factor_range": (0.9, 0.9)}),
    ("contrast", {"factor_range": (0.9, 0.9)}),
    ("saturation", {"factor_range": (0.9, 0.9)}),
    ("grayscale", {}),
    ("hue", {"turn_range": (0.2, 0.2)}),
    ("gamma", {}),
    ("autocontrast", {}),
    ("sharpness", {}),
    ("gaussian_noise", {}),
]


@pytest.mark.parametrize(("name", "params"), CLIPPED, ids=lambda v: str(v)[:12])
def test_what_clips(name, params, run_op):
    """From 0 to 1; NaN becomes 0."""
    image = np.random.default_rng(1).normal(size=(30, 30, 3)).astype(np.float32)
    (got,) = run_op(make(name, params | {"p": 1}), [("image", image)]).outputs
    assert (got.min(), got.max()) in {(0, 1)} or name == "contrast"
    assert 0 <= got.min() <= got.max() <= 1
    image[7, 7] = np.nan
    (got,) = run_op(make(name, params | {"p": 1}), [("image", image)]).outputs
    assert (got[7, 7] == 0).all()
    assert 0 <= got.min() <= got.max() <= 1


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness", "hue"])
def test_nothing_is_changed_or_clipped_by_a_factor_of_1(name, run_op):
    image = np.random.default_rng(1).normal(size=(30, 30, 3)).astype(np.float32)
    given = {"turn_range": (0, 0)} if name == "hue" else {"factor_range": (1, 1)}
    (got,) = run_op(make(name, given | {"p": 1}), [("image", image)]).outputs
    assert got.tobytes() == image.tobytes()
    (got,) = run_op(make("color_jitter", {}), [("image", image)]).outputs
    assert got.tobytes() == image.tobytes()


def test_autocontrast_passes_over_what_is_no_number(run_op):
    image = np.float32([2, np.nan, 4, 3, -0.0]).reshape(1, 5, 1)
    (got,) = run_op(make("autocontrast", {"p": 1}), [("image", image)]).outputs
    assert got.ravel().tolist() == [0.5, 0, 1, 0.75, 0]
    for flat in (np.full((3, 3, 1), 7), np.full((3, 3, 1), np.nan)):
        (got,) = run_op(
            make("autocontrast", {"p": 1}), [("image", flat.astype(np.float32))]
        ).outputs
        assert got.tobytes() == flat.astype(np.float32).tobytes()


@pytest.mark.parametrize("shape", [(1, 2, 3), (30, 40, 1), (61, 67, 2), (90, 71, 3), (45, 51, 4)])
def test_autocontrast_stretches_each_channel_to_0_and_1(run_op, shape):
    image = np.random.default_rng(2).normal(3, 50, shape).astype(np.float32)
    low, high = image.min((0, 1)), image.max((0, 1))
    (got,) = run_op(make("autocontrast", {"p": 1}), [("image", image)]).outputs
    assert (got == (image - low) / (high - low)).all()
    assert (got.min((0, 1)) == 0).all()
    assert (got.max((0, 1)) == 1).all()


def test_gray_of_what_is_infinite_is_the_same_in_all_channels(run_op):
    image = np.full((1, 4, 3), 0.5, np.float32)
    image[0, [0, 1, 2], [0, 1, 2]] = np.float32([np.inf, -np.inf, np.nan])
    (got,) = run_op(make("grayscale", {"p": 1}), [("image", image)]).outputs
    assert np.array_equal(got[0, :3], np.float32([[1] * 3, [0] * 3, [0] * 3]))


def test_the_mean_of_a_large_image(run_op):
    """Lanes of float64: no digit is lost where float32 would lose most."""
    image = np.full((1000, 700, 3), 0.1, np.float32)
    image[::2] = 0.9
    (got,) = run_op(make("contrast", {"factor_range": (0, 0), "p": 1}), [("image", image)]).outputs
    assert np.abs(got - 0.5).max() < 1e-7


LEVELS_ONLY = [n for n, cls in registered().items() if cls.image_dtypes == ("uint8",)]


@pytest.mark.parametrize("name", [n for n in LEVELS_ONLY if "image" in registered()[n].kernels])
def test_what_needs_levels_says_what_to_do(name):
    op = make(name, {})
    with pytest.raises(
        StateError,
        match=rf"{name} has no rule for image float32\[8x8x3\]: .* dtype uint8 .*from_float",
    ):
        op.declare((State.fixed("image", "float32", (8, 8, 3)),))
