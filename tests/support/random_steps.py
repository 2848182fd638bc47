"""Examples of ops for random pipelines: parameters that fit any ops before them.

`random_graphs` writes the pipelines.
"""

import dataclasses
import functools

import numpy as np

from stoker.ops.contract.registry import folds, lookup, make, registered
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State, StateError
from stoker.pipeline.planning.agreement.geometric_history import moves


def varied(name):
    """Return the function that makes parameters of an op; None if no random pipeline has it."""
    cls = lookup(name)
    by_chance = "p" in {field.name for field in dataclasses.fields(cls)}
    in_place = "image" in cls.kernels and not moves(cls, resized=False)
    if cls.varied is None and not (by_chance and in_place):
        return None

    def params(r):
        found = {parameter: pick(r, values) for parameter, values in (cls.varied or {}).items()}
        return found | ({"p": float(r.uniform())} if by_chance else {})

    return params


PARAMS = {name: varied(name) for name in sorted({*registered(), *folds()}) if varied(name)}
CHANGES_OF_LEVELS = tuple(n for n in PARAMS if n in registered() and lookup(n).varied is None)
"""Ops that change levels, and happen with a probability; they need no other parameter."""
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
