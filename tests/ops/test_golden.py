"""Golden hashes: draws and pixels of every op are frozen in tests/golden/ops.json, draws of choices
in tests/golden/choices.json.

A difference is a changed contract: raise the op's `version` (or the numeric contract's), say so in
docs/contracts/, and only then write the file again:

    STOKER_WRITE_GOLDEN=1 python -m pytest tests/ops/test_golden.py
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import (
    Chance,
    Integer,
    OneOf,
    SomeOf,
    State,
    StateError,
    Uniform,
    WeightedSomeOf,
    make,
)
from stoker.ops.contract.registry import choices

GOLDEN = Path(__file__).parents[1] / "golden" / "ops.json"
CHOICES = GOLDEN.with_name("choices.json")
SIZES = ((61, 83), (200, 40), (5, 7), (24, 33))
KINDS = (
    ("image", "uint8"),
    ("image", "float32"),
    ("image", "uint16"),
    ("mask", "uint8"),
    ("mask", "uint16"),
    ("mask", "int32"),
)
PLAIN_KINDS = (
    ("array", "uint8"),
    ("array", "int32"),
    ("array", "float32"),
    ("bytes", "uint8"),
    ("label", "int32"),
    ("label", "int64"),
    ("scalar", "bool"),
    ("scalar", "float32"),
    ("scalar", "float64"),
)
"""Kinds that are hashed by the plain form, which other tests compare with machine code."""
CHOSEN = (
    Chance(0.3),
    Integer(-5, 40),
    OneOf((1.0,) * 4),
    OneOf((1.0, 0.5, 2.5)),
    SomeOf(5, 0, 3),
    WeightedSomeOf((2.0, 0.0, 1.5, 4.0), 0, 3),
    Uniform(-1.5, 2.5),
)


def pattern(shape, dtype):
    """Values that depend on nothing but integer arithmetic: smooth, with edges and noise."""
    count = int(np.prod(shape))
    i = np.arange(count, dtype=np.uint64)
    noise = (i * np.uint64(2654435761) >> np.uint64(7)) & np.uint64(31)
    wave = (i * i // np.uint64(977)) & np.uint64(127)
    steps = np.uint64(97) * (i // np.uint64(max(count // 5, 1)) & np.uint64(1))
    levels = (noise + wave + steps).reshape(shape)
    if dtype == "float32":  # from -1/4 to 7/4, exact in 12 bits
        return (levels.astype(np.float32) - np.float32(32)) / np.float32(128)
    return levels.astype(dtype)


def digest(*arrays):
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def shape_of(kind, height, width, channels):
    """The shape of a value, of a sequence as long as the height."""
    shapes = {"mask": (height, width), "bytes": (height,), "label": (), "scalar": ()}
    return shapes.get(kind, (height, width, channels))


def value(kind, dtype, sides, channels):
    """A pattern of the shape of a kind; of a number 4.4, 0, 2.2 and 7.7 for the four sizes."""
    shape = shape_of(kind, *sides, channels)
    if (kind, dtype) == ("image", "uint16"):
        return pattern(shape, dtype) * np.uint16(257)
    return pattern(shape, dtype) if shape else np.array(sum(sides) % 10 * 1.1).astype(dtype)


def accepts(op, kind, dtype, channels):
    """Return whether an op has a rule for a dtype of a kind."""
    try:
        op.declare((State.fixed(kind, dtype, shape_of(kind, 8, 8, channels)),))
    except StateError:
        return False
    return kind in op.kernels


def hashes(run_op, op):
    """Return version, digest of 64 draws, and a digest for each kind, dtype and channel count."""
    keys = range(64)
    draws = [np.frombuffer(run_op.draw(op, k, 375, 500).tobytes(), np.uint8) for k in keys]
    found = {"version": op.version, "draws": digest(*draws)}
    main = 4 if op.name == "normalize" and len(op.mean) == 4 else 3
    main = 4 if len(getattr(op, "fill", ())) == 4 else main
    tried = [(kind, dtype, main, SIZES) for kind, dtype in (*KINDS, *PLAIN_KINDS)]
    tried += [(*KINDS[i], few, SIZES[::2]) for i in (0, 1) for few in (1, 2, 4) if few != main]
    for kind, dtype, channels, sizes in tried:
        if accepts(op, kind, dtype, channels):
            outputs = []
            for key, sides in enumerate(sizes):
                given = [(kind, value(kind, dtype, sides, channels))]
                outputs += run_op(
                    op, given, key, arithmetic=COMPILED if (kind, dtype) in KINDS else PLAIN
                ).outputs
            name = f"{kind} {dtype}" + f" of {channels}" * (channels != main)
            found[name] = digest(*outputs)
    return found


@pytest.mark.slow
def test_golden(run_op, examples):
    found = [
        {"op": name, "params": params, **hashes(run_op, make(name, params))}
        for name, choices in sorted(examples.items())
        for params in choices
    ]
    found = json.loads(json.dumps(found))
    if os.environ.get("STOKER_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(GOLDEN.read_text()) == found


def test_golden_choices():
    assert {type(op).name for op in CHOSEN} == set(choices())
    found = {}
    for op in CHOSEN:
        drawn = [op.sample(0, 0, seed=3, id=number) for number in range(64)]
        found[str(op)] = {"version": op.version, "draws": digest(np.bytes_(json.dumps(drawn)))}
    if os.environ.get("STOKER_WRITE_GOLDEN"):
        CHOICES.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(CHOICES.read_text()) == found
