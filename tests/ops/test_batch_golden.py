"""Golden hashes of batch ops: draws, resolved records and results, in tests/golden/batch_ops.json.

A difference is a changed contract: raise the op's `version`, say so in docs/contracts/, and only
then write the file again:

    STOKER_WRITE_GOLDEN=1 python -m pytest tests/ops/test_batch_golden.py
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import State, StateError
from stoker.ops.bases.batch_op import Mixed, picture_size
from stoker.ops.contract.registry import batch_ops
from stoker.ops.kernels.means import Tools
from stoker.protocol.item_fields import ItemField

GOLDEN = Path(__file__).parents[1] / "golden" / "batch_ops.json"
OPS = {
    "copy_paste": [
        {"masks": "instance", "object_p": 0.3},
        {"masks": "semantic", "object_p": 0.7, "ignore": (0, 3), "sigma": 1.5, "p": 0.5},
    ],
    "cutmix": [{}, {"alpha": 0.3, "p": 0.5}],
    "mixup": [{}, {"alpha": 5.0, "p": 0.5}],
    "mosaic": [{}, {"center_range": (0.0, 1.0), "p": 0.5}],
    "mosaic_scaled": [
        {"fill": 114, "mask_fill": 200},
        {"center_range": (0.0, 1.0), "scale_range": (1 / 16, 4), "p": 0.5},
    ],
}
BOXES = (ItemField("xyxy", "float32", 4), ItemField("label", "int32", 1))
NUMBERED = (ItemField("xyxy", "float32", 4), ItemField("instance", "int32", 1))
MASK = State.fixed("mask", "uint8", (30, 44))
JOINT = {"copy_paste": MASK}
"""Ops whose values depend on a mask of the call: each state is mixed together with this one."""
STATES = [
    State.fixed("image", "uint8", (30, 44, 3)),
    State.fixed("image", "uint8", (30, 44, 1)),
    State.fixed("image", "float32", (30, 44, 3)),
    State.fixed("mask", "uint8", (30, 44)),
    State.fixed("mask", "uint16", (30, 44)),
    State.fixed("mask", "int32", (30, 44)),
    State.fixed("array", "float16", (3, 30, 44)),
    State.fixed("array", "float32", (30, 44, 3)),
    State.fixed("array", "float32", (10,)),
    State.fixed("scalar", "float64", ()),
    State.ragged("boxes", BOXES, 6),
    State.ragged("keypoints", (ItemField("xy", "float32", 2),), 6),
]


def value(state, number):
    """Whole numbers that depend on integer arithmetic alone, as each kind has them."""
    count = int(np.prod(state.bound))
    i = np.arange(count, dtype=np.uint64) + np.uint64(1000 * number)
    noise = (i * np.uint64(2654435761) >> np.uint64(7)) & np.uint64(31)
    if not state.items:
        return noise.astype(state.dtype).reshape(state.bound)
    words = state.items[0].words
    first = noise.reshape(state.bound)[:, :words].astype(np.float32)
    if state.kind == "boxes":
        first[:, 2:] += first[:, :2]
    made = noise.astype(np.uint32).reshape(state.bound)
    made[:, :words] = first.view(np.uint32)
    return np.ascontiguousarray(made[: number + 2])


def results(op, state, record, tools):
    """The bytes of a value after the op, and of the mask that it was mixed with, if any."""
    states = [state, JOINT[op.name]] if op.name in JOINT and state.kind != "mask" else [state]
    values = [
        Mixed(
            one,
            [value(one, number) for number in range(1 + op.others)],
            np.full(op.mixed(one).bound, 77, one.dtype),
        )
        for one in states
    ]
    counts = op.mix_all(values, record, tools)
    return b"".join(
        (v.dst[:count] if v.state.items else v.dst).tobytes()
        for v, count in zip(values, counts, strict=True)
    )


def hashes(op, tools):
    drawn = [op.sample(0, 0, seed=3, id=number) for number in range(64)]
    found = {"version": op.version, "draws": digest(json.dumps(drawn).encode())}
    numbered = [State.ragged("boxes", NUMBERED, 6)] if op.name in JOINT else []
    for state in [*STATES, *numbered]:
        try:
            op.mixed(state)
        except StateError:
            continue
        made = []
        for values in drawn[:12]:
            record = np.zeros(1, op.record)
            for name, number in values.items():
                record[name] = number
            op.resolve(record, picture_size(STATES[0]), [7, 8, 9][: op.others])
            made += [record.tobytes(), results(op, state, record[0], tools)]
        found[f"{state.kind} {state.dtype} {'x'.join(map(str, state.bound))}"] = digest(*made)
    return found


def digest(*parts):
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(part)
    return total.hexdigest()


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED], ids=["plain", "machine"])
@pytest.mark.parametrize("name", sorted(OPS))
def test_golden(name, arithmetic):
    tools = Tools(arithmetic=arithmetic)
    found = [hashes(ops.make(name, params), tools) for params in OPS[name]]
    assert sorted(OPS) == sorted(batch_ops())
    if os.environ.get("STOKER_WRITE_GOLDEN") and arithmetic is PLAIN:
        known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        GOLDEN.write_text(json.dumps({**known, name: found}, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(GOLDEN.read_text())[name]
