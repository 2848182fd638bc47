"""Fixtures of the tests of stoker.ops: examples of every op, and one way to run an op under guard.

`pytest_generate_tests` hands every registered op to each test that asks for `example`. Examples of
an op without required parameters are derived from its signature; EXAMPLES has the others, and more
where the defaults do not reach everything.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage import data

from stoker.ops import Op, State, StateError, make, registered
from stoker.ops._testing.runner import OpRunner
from stoker.ops.testing import structured

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "affine": [
        {"degrees": 30, "translate": (0.1, 0.2), "scale": (0.7, 1.4), "shear": 10, "fill": 114},
        {"degrees": 180, "shear": (-20, 20, -9, 30), "interpolation": "nearest", "mask_fill": 7},
        {"degrees": (5, 9), "scale": (0.5, 0.6), "fill": (1, 2, 3, 4)},
    ],
    "augmix_transform": [
        {"severity": 10, "fill": 114},
        {"all_ops": False, "interpolation": "nearest"},
    ],
    "autocontrast": [{"p": 0.5}, {"p": 1}],
    "bbox_safe_random_crop": [{}, {"erosion_rate": 0.3}],
    "box_blur": [{"p": 0.9}, {"size_range": (1, 31), "p": 0.5}],
    "brightness": [{"p": 0.9}, {"factor_range": (0, 3), "p": 0.5}],
    "brightness_contrast": [
        {"p": 0.9},
        {"brightness_limit": 1, "contrast_limit": (-1, 3), "brightness_by_max": False, "p": 0.9},
        {"brightness_limit": 1, "contrast_limit": 2, "ensure_safe_range": True, "p": 0.9},
    ],
    "cast": [{"dtype": "float16"}, {"dtype": "float32"}, {"dtype": "int64"}],
    "center_crop": [{"size": 24, "fill": (7, 8, 9, 10), "mask_fill": 200}, {"size": (9, 40)}],
    "channel_drop": [{"p": 0.9}, {"count_range": (1, 3), "fill": (7, 8, 9), "p": 0.5}],
    "channel_shuffle": [{"p": 0.9}, {"p": 0.5}],
    "clahe": [{"p": 0.9}, {"limit_range": (0, 40), "tiles": (3, 5), "p": 0.5}],
    "color_jitter": [
        {"brightness": 0.4, "contrast": 0.5, "saturation": 0.6, "hue": 0.2},
        {"contrast": 0.9},
    ],
    "contrast": [{"p": 0.9}, {"factor_range": (0, 3), "p": 0.5}],
    "corner_crop": [
        {"size": 24, "corner": "bottom_right", "fill": (7, 8, 9, 10), "mask_fill": 200},
        {"size": (9, 40), "corner": "top_right"},
    ],
    "crop": [
        {"size": (24, 30), "top": 3, "left": 9},
        {"size": (40, 70), "top": -4, "left": -9, "fill": (7, 8, 9, 10), "mask_fill": 200},
    ],
    "crop_around_box": [{}, {"margin": 0.3}],
    "crop_non_empty_mask": [
        {"size": (24, 18), "fill": (7, 8, 9, 10), "mask_fill": 200},
        {"size": (9, 70), "ignore": (0, 1, 255)},
    ],
    "defocus": [{"p": 0.9}, {"radius_range": (1, 12), "alias_blur_range": (0.3, 2), "p": 0.5}],
    "downscale": [
        {"p": 0.9},
        {"scale_range": (0.1, 0.9), "down": "area", "up": "lanczos", "p": 0.8},
    ],
    "elastic": [
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"amount_range": (0, 3), "spacing": 8, "interpolation": "nearest", "p": 0.5},
    ],
    "equalize": [{"p": 0.5}, {"p": 1}],
    "coarse_dropout": [
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"holes_range": (5, 32), "height_range": (0.01, 1), "width_range": (0.1, 0.1), "p": 0.5},
    ],
    "erase": [{"fill": 114, "mask_fill": 200, "p": 0.9}, {"scale": (0.1, 0.9), "p": 0.5}],
    "fit_bucket": [
        {"size": (24, 40)},
        {"size": (40, 9), "crop": "random", "interpolation": "bicubic"},
        {"size": (33, 31), "crop": "random", "interpolation": "nearest"},
    ],
    "fit_length": [{"length": 20}, {"length": 7, "keep": "last"}, {"length": 9, "keep": "random"}],
    "from_float": [{}],
    "gamma": [{"p": 0.9}, {"gamma_range": (0.3, 3), "p": 0.5}],
    "gaussian_blur": [{"p": 0.9}, {"kernel_size": 23, "sigma_range": (1, 9), "p": 0.5}],
    "gaussian_noise": [{"p": 0.9}, {"sigma_range": (0, 128), "p": 0.5}],
    "grayscale": [{"p": 0.5}, {"p": 1}],
    "grid_distortion": [
        {"p": 0.9},
        {"cells": 16, "stretch_range": (-0.9, 0.9), "interpolation": "nearest", "p": 0.5},
    ],
    "grid_mask": [
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"unit_range": (5, 20), "ratio": 0.3, "p": 0.5},
    ],
    "horizontal_flip": [{"p": 0.5}, {"p": 1}],
    "hsv_to_rgb": [{}],
    "hue": [{"p": 0.9}, {"turn_range": (-0.5, 0.5), "p": 0.5}],
    "invert": [{"p": 0.5}, {"p": 1}],
    "iou_crop": [{}, {"options": (0.2,), "min_scale": 0.1, "max_aspect": 4, "trials": 9}],
    "iso_noise": [{"p": 0.9}, {"color_shift": (0, 1), "intensity": (0, 1), "p": 0.5}],
    "jpeg_compression": [{"p": 0.9}, {"quality_range": (1, 100), "p": 0.5}],
    "layout": [{}],
    "letterbox": [
        {"size": (30, 44), "fill": 114, "mask_fill": 255},
        {"size": 37, "interpolation": "bicubic"},
        {"size": (20, 9), "interpolation": "nearest", "fill": (1, 2, 3, 4)},
    ],
    "median_blur": [{"p": 0.9}, {"size_range": (1, 15), "p": 0.5}],
    "mirror": [{}, {"axis": "vertical"}],
    "motion_blur": [{"p": 0.9}, {"size_range": (1, 31), "degrees": (-90, 270), "p": 0.5}],
    "normalize": [
        {},
        {"dtype": "float16"},
        {"layout": "CHW"},
        {"mean": 0.5, "std": 1e-7, "dtype": "float16", "layout": "CHW"},
        {"mean": (0.1, 0.2, 0.3, 0.4), "std": (3e4, 3, 5e4, 1)},
    ],
    "one_hot": [{"classes": 7}, {"classes": 200, "dtype": "float16"}],
    "optical_distortion": [
        {"distort_range": (-0.3, 1), "fill": 114, "mask_fill": 200, "p": 0.9},
        {"interpolation": "nearest", "p": 0.5},
    ],
    "pad": [
        {"padding": 30, "mode": "reflect"},
        {"padding": (2, 5), "mode": "edge", "multiple": (16, 24)},
        {"padding": (3, 0, 9, 50), "fill": (7, 8, 9, 10), "mask_fill": 200},
    ],
    "pad_to_size": [
        {"size": (1000, 300), "fill": 114, "mask_fill": 200},
        {"size": (999, 301), "place": "center"},
    ],
    "perspective": [
        {"p": 0.7, "fill": 114, "mask_fill": 7},
        {"distortion_scale": 0.6, "p": 0.9, "interpolation": "nearest"},
    ],
    "posterize": [{"p": 0.5}, {"bits": 2, "p": 1}],
    "random_crop": [
        {"size": (20, 30), "padding": 4, "fill": 114, "mask_fill": 255},
        {"size": 33, "padding": (0, 9)},
    ],
    "random_resized_crop": [
        {"size": (19, 28)},
        {"size": 24, "interpolation": "bicubic", "scale": (0.01, 0.4)},
        {"size": (41, 5), "interpolation": "nearest", "ratio": (0.2, 9)},
        {"size": (30, 21), "interpolation": "lanczos", "scale": (0.2, 1)},
        {"size": 20, "interpolation": "area"},
    ],
    "random_short_side_scale": [
        {"sizes": (12, 40), "max_size": 70},
        {"sizes": (5, 90), "max_size": 90, "interpolation": "bicubic"},
    ],
    "resize": [
        {"size": (24, 33)},
        {"size": (7, 11), "interpolation": "bicubic"},
        {"size": (50, 20), "interpolation": "nearest"},
        {"size": (24, 90), "interpolation": "lanczos"},
        {"size": (90, 13), "interpolation": "area"},
    ],
    "resize_long": [
        {"size": 40},
        {"size": 21, "interpolation": "bicubic"},
        {"size": 33, "interpolation": "area"},
    ],
    "resize_short": [
        {"size": 24, "max_size": 60},
        {"size": 30, "max_size": 31, "interpolation": "nearest"},
        {"size": 17, "max_size": 60, "interpolation": "lanczos"},
    ],
    "rgb_to_hsv": [{}],
    "rgb_to_ycbcr": [{}],
    "rot90": [{}, {"turns": 3, "p": 1}],
    "rotate": [{"degrees": 45}, {"degrees": (80, 100), "interpolation": "nearest", "fill": 9}],
    "rotate_expand": [
        {"degrees": 180},
        {"degrees": (80, 100), "interpolation": "nearest", "fill": 9, "mask_fill": 7},
    ],
    "safe_rotate": [
        {"degrees": 180, "fill": 114},
        {"degrees": (20, 70), "interpolation": "nearest", "fill": 9, "mask_fill": 7},
    ],
    "salt_and_pepper": [{"p": 0.9}, {"amount_range": (0, 1), "p": 0.5}],
    "saturation": [{"p": 0.9}, {"factor_range": (0, 3), "p": 0.5}],
    "scale_jitter": [
        {"size": 32},
        {"size": (20, 40), "scale": (0.5, 1.5), "interpolation": "bicubic"},
        {"size": 24, "scale": (0.2, 3.0), "interpolation": "nearest"},
    ],
    "sharpness": [{"p": 0.9}, {"factor_range": (0, 5), "p": 0.5}],
    "shot_noise": [{"p": 0.9}, {"scale_range": (0.01, 1), "p": 0.5}],
    "solarize": [{"p": 0.5}, {"threshold": 200, "p": 1}],
    "to_float": [{}],
    "clip": [{"low": 20, "high": 200}, {"low": 0, "high": 1}],
    "window": [{"center": 100, "width": 50}, {"center": 0.5, "width": 0.25}],
    "to_gray": [{}],
    "to_rgb": [{}],
    "transpose": [{"p": 0.5}, {"p": 1}],
    "vertical_flip": [{"p": 0.5}, {"p": 1}],
    "ycbcr_to_rgb": [{}],
    "zoom_out": [
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"side_range": (1, 2), "fill": (1, 2, 3, 4), "p": 0.5},
    ],
}


def examples_of(name: str) -> list[dict[str, Any]]:
    """Return the examples of an op: its line of EXAMPLES, or what its signature gives."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    fields = {field.name: field for field in dataclasses.fields(registered()[name])}
    missing = [
        n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING
    ]
    assert not missing, f"{name} needs {missing}: give it examples in tests/ops/conftest.py"
    return [{"p": 0.9}, {"p": 0.5}] if "p" in fields else [{}]


WIDE_MASKS = ("uint16", "int32")
"""Other dtypes of masks than uint8; a test of all ops tries one of them on each, in turn."""


def accepts(op: Op, kind: str, dtype: str, shape: tuple[int, ...]) -> bool:
    """Return whether an op has a rule for one value."""
    try:
        op.declare((State.fixed(kind, dtype, shape),))
    except StateError:
        return False
    return True


def image_channels(op: Op, dtype: str) -> list[int]:
    """Channel counts of images of a dtype that an op has a rule for; an op without images: any."""
    if "image" not in op.kernels:
        return [3] if dtype == "uint8" else []
    return [c for c in (1, 2, 3, 4) if accepts(op, "image", dtype, (8, 8, c))]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `example` with every example of every registered op.

    Those that ask for `dtype` too get each dtype of images that the example has a rule for; those
    that ask for `kind_in_place` each kind and dtype whose kernel works in place.
    """
    if "example" not in metafunc.fixturenames:
        return
    pairs = [(n, make(n, p)) for n in sorted(registered()) for p in examples_of(n)]
    of_dtypes = [
        (f"{name}-{i}-{dtype}", example, dtype)
        for i, (name, example) in enumerate(pairs)
        for dtype in ("uint8", "uint16", "float32")
        if "dtype" in metafunc.fixturenames and image_channels(example, dtype)
    ]
    if "kind_in_place" in metafunc.fixturenames:
        found = [
            pytest.param(example, dtype, kind, id=f"{name}-{kind}")
            for name, example, dtype in of_dtypes
            for kind in example.kernels
            if example.kernel_of(kind, dtype).in_place and (kind == "image" or dtype == "uint8")
        ]
        metafunc.parametrize(("example", "dtype", "kind_in_place"), found)
    elif "dtype" in metafunc.fixturenames:
        found = [pytest.param(example, dtype, id=name) for name, example, dtype in of_dtypes]
        metafunc.parametrize(("example", "dtype"), found)
    else:
        names = [f"{name}-{i}" for i, (name, _) in enumerate(pairs)]
        metafunc.parametrize("example", [example for _, example in pairs], ids=names)


@pytest.fixture(scope="session")
def examples() -> dict[str, list[dict[str, Any]]]:
    """Example parameters by op name."""
    return {name: examples_of(name) for name in sorted(registered())}


@pytest.fixture(scope="session")
def every_example(examples: dict[str, list[dict[str, Any]]]) -> list[Op]:
    """Every example of every registered op, for tests that are over in a moment."""
    return [make(name, params) for name, choices in examples.items() for params in choices]


@pytest.fixture(scope="session")
def run_op() -> OpRunner:
    """Run an op: `run_op(op, [("image", array)], key, arithmetic=COMPILED)`."""
    return OpRunner()


@pytest.fixture(scope="session")
def as_record() -> Callable[..., Any]:
    """Make the record (np.void) that kernels take of a 0-d structured array."""
    return structured


@pytest.fixture(scope="session")
def photo() -> np.ndarray:
    """A photograph, (375, 500, 3) uint8."""
    return np.ascontiguousarray(np.asarray(Image.fromarray(data.astronaut()).resize((500, 375))))


@pytest.fixture(scope="session")
def noise() -> Callable[..., np.ndarray]:
    """Make random values: `noise(shape, seed=0, dtype="uint8", classes=256)`."""

    def make_noise(
        shape: tuple[int, ...], seed: int = 0, dtype: str = "uint8", classes: int = 256
    ) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, classes, shape).astype(dtype)

    return make_noise


@pytest.fixture(scope="session")
def values_of(examples: dict[str, Any]) -> Callable[..., list[tuple[str, np.ndarray]]]:
    """Make values of one size: an image, a mask of uint8, and one of uint16 or int32.

    Images are uint8 where the op has a rule for them; floats are in [-0.5, 1.5), levels of uint16
    use all bits. Ops that have no
    rule for either get sequences of that height.
    """

    def make_values(
        op: Op, height: int, width: int, channels: int = 3, seed: int = 0, dtype: str = ""
    ) -> Any:
        draw = np.random.default_rng(seed)
        values = []
        if "image" in op.kernels:
            shape = (height, width, channels)
            image = draw.integers(0, 256, shape, dtype=np.uint8)
            if dtype == "uint16":
                image = draw.integers(0, 65536, shape, dtype=np.uint16)
            if dtype == "float32" or not image_channels(op, "uint8"):
                image = (draw.random(shape, np.float32) * 2 - np.float32(0.5)).astype(np.float32)
            values.append(("image", image))
        if "mask" in op.kernels:
            turn = sorted(registered()).index(op.name) % 2
            for classes in ("uint8", WIDE_MASKS[turn]):
                mask = draw.integers(0, 200, (height, width)).astype(classes)
                if accepts(op, "mask", classes, mask.shape):
                    values.append(("mask", mask))
        if not {"image", "mask"} & op.kernels.keys():  # sequences
            values.append(("array", draw.integers(0, 9999, (height, width), dtype=np.int32)))
            values.append(("bytes", draw.integers(0, 256, height, dtype=np.uint8)))
        return values

    return make_values
