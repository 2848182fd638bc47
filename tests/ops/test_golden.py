"""Golden hashes: draws and pixels of every op are frozen in tests/golden/ops.json.

A difference is a changed contract: raise the op's `version` (or the numeric contract's), say so in
docs/contracts/, and only then write the file anew:

    STOKER_WRITE_GOLDEN=1 python -m pytest tests/ops/test_golden.py
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from stoker.ops import State, StateError, make

GOLDEN = Path(__file__).parents[1] / "golden" / "ops.json"
KINDS = (
    ("image", "uint8"),
    ("image", "float32"),
    ("mask", "uint8"),
    ("mask", "uint16"),
    ("mask", "int32"),
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


def accepts(op, kind, dtype, channels):
    """Whether an op has a rule for a dtype of a kind."""
    try:
        op.declare((State.fixed(kind, dtype, (8, 8, channels) if kind == "image" else (8, 8)),))
    except StateError:
        return False
    return True


def hashes(run_op, op):
    """Return version, digest of 64 draws, and a digest for each kind and dtype."""
    keys = range(64)
    draws = [np.frombuffer(run_op.draw(op, k, 375, 500).tobytes(), np.uint8) for k in keys]
    found = {"version": op.version, "draws": digest(*draws)}
    channels = 4 if op.name == "normalize" and len(op.mean) == 4 else 3
    channels = 4 if len(getattr(op, "fill", ())) == 4 else channels
    for kind, dtype in KINDS:
        if kind in op.kernels and accepts(op, kind, dtype, channels):
            outputs = []
            for key, (height, width) in enumerate([(61, 83), (200, 40), (5, 7), (24, 33)]):
                shape = (height, width, channels) if kind == "image" else (height, width)
                outputs += run_op(op, [(kind, pattern(shape, dtype))], key).outputs
            found[f"{kind} {dtype}"] = digest(*outputs)
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
