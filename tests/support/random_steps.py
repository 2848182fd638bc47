"""Examples of ops for random pipelines: parameters that fit any ops before them.

`random_graphs` writes the pipelines.
"""

import dataclasses
import functools

import numpy as np

from stoker.ops.contract.registry import make, registered
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State, StateError
from stoker.ops.geometry.corner_crop import CORNERS

CHANGES_OF_LEVELS = tuple(
    name
    for name, cls in sorted(registered().items())
    if cls.__module__.startswith(("stoker.ops.color.", "stoker.ops.filters."))
    and "p" in {field.name for field in dataclasses.fields(cls)}
)
"""Ops that change levels, and happen with a probability; they need no other parameter."""
PARAMS = {
    **{name: lambda r: {"p": float(r.uniform())} for name in CHANGES_OF_LEVELS},
    "random_resized_crop": lambda r: {"size": [pick(r, (24, 40)), 32], "scale": [0.2, 1.0]},
    "resize": lambda r: {"size": [32, pick(r, (24, 48))]},
    "fit_bucket": lambda r: {
        "size": [32, pick(r, (24, 48))],
        "crop": pick(r, ("center", "random")),
    },
    "random_crop": lambda r: {"size": [16, 24], "padding": pick(r, (0, 4))},
    "center_crop": lambda r: {"size": [pick(r, (16, 20)), 16]},
    "crop": lambda r: {"size": [20, 24], "top": pick(r, (-3, 2)), "left": pick(r, (0, 5))},
    "corner_crop": lambda r: {"size": [16, pick(r, (16, 20))], "corner": pick(r, CORNERS)},
    "augmix_transform": lambda r: {"severity": 10, "all_ops": pick(r, (True, False))},
    "mirror": lambda r: {"axis": pick(r, ("horizontal", "vertical"))},
    "blend": lambda r: {"weights": [float(r.uniform()), 1.0]},
    "random_blend": lambda r: {"count": 2, "alpha": 0.7},
    "horizontal_flip": lambda r: {"p": float(r.uniform())},
    "color_jitter": lambda r: {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3},
    "vertical_flip": lambda r: {"p": float(r.uniform())},
    "transpose": lambda r: {"p": float(r.uniform())},
    "rot90": lambda r: {"p": float(r.uniform())},
    "pad": lambda r: {"padding": 3, "mode": pick(r, ("edge", "reflect"))},
    "resize_short": lambda r: {"size": pick(r, (20, 30)), "max_size": 50},
    "resize_long": lambda r: {"size": pick(r, (30, 40))},
    "random_short_side_scale": lambda r: {"sizes": [16, 30], "max_size": 40},
    "letterbox": lambda r: {"size": [pick(r, (20, 30)), 24]},
    "affine": lambda r: {"degrees": 30, "translate": 0.1, "scale": [0.8, 1.2], "shear": 5},
    "rotate": lambda r: {"degrees": pick(r, (20, 180))},
    "rotate_expand": lambda r: {"degrees": pick(r, (20, (90, 90)))},
    "safe_rotate": lambda r: {"degrees": pick(r, (20, (90, 90)))},
    "scale_jitter": lambda r: {"size": [30, 24], "scale": [0.6, 1.3]},
    "perspective": lambda r: {"p": float(r.uniform())},
    "elastic": lambda r: {"amount_range": [1, 3.5], "spacing": 8, "p": float(r.uniform())},
    "grid_distortion": lambda r: {"cells": pick(r, (2, 5)), "p": float(r.uniform())},
    "optical_distortion": lambda r: {"distort_range": [-0.2, 0.3], "p": float(r.uniform())},
    "pad_to_size": lambda r: {"size": 60, "place": pick(r, ("top_left", "center"))},
    "zoom_out": lambda r: {"side_range": [1.0, 1.5], "p": float(r.uniform())},
    "rgb_to_hsv": lambda r: {},
    "hsv_to_rgb": lambda r: {},
    "rgb_to_ycbcr": lambda r: {},
    "ycbcr_to_rgb": lambda r: {},
    "to_rgb": lambda r: {},
}
CONVERSIONS = {"uint8": "to_float", FLOAT: "from_float"}
"""The op that makes floats of levels, and levels of floats."""
MADE = {"to_float": FLOAT, "from_float": "uint8"}
"""Dtype of what they make."""
# Ops that make an array of an image, at the end of a pipeline with floats.
ARRAYS = {
    "cast": lambda r: {"dtype": pick(r, ("float16", FLOAT, "float64"))},
    "layout": lambda r: {"order": "CHW"},
    "normalize": lambda r: {
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.25, 0.3],
        "dtype": pick(r, ("float16", FLOAT)),
        "layout": pick(r, ("HWC", "CHW")),
    },
}
# An op that must come right before another, because it bounds the sizes that the other takes.
BEFORE = {"pad_to_size": ("resize", {"size": [40, 48]})}
# Fields that batch ops take: classes have no mean, and a number does not describe four tiles.
MIXED = {
    "cutmix": ("image", "mask", "floats", "weight"),
    "mixup": ("image", "floats", "weight"),
    "mosaic": ("image", "mask", "floats"),
}


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


@functools.cache
def takes_floats(name, example):
    """Return whether an op has a rule for images of floats, with an example of its parameters."""
    op = make(name, example(np.random.default_rng(0)))
    try:
        op.declare((State.fixed("image", FLOAT, (40, 48, 3)),) * (2 if op.folds else 1))
    except StateError:
        return False
    return True
