"""A pipeline of every op there is, and its rows as digests; also as a process of its own.

    python tests/needs/every_op.py ID...    prints {id: {output: digest}} as JSON

An op that is added joins by its examples in the golden file.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from skimage import data

from stoker import ops
from stoker.ops import Op, State, StateError, make
from stoker.pipeline import pipeline
from stoker.pipeline.planning.value_scales import scaled

GOLDEN = Path(__file__).parents[1] / "golden" / "ops.json"
SIDE, SMALL = 48, 24
STATES = {
    "image": State.fixed("image", "uint8", (SIDE, SIDE, 3)),
    "floats": State.fixed("image", "float32", (SIDE, SIDE, 3)),
    "mask": State.fixed("mask", "uint8", (SIDE, SIDE)),
}


def result(op: Op, kind: str) -> State | None:
    """Return what an op makes of a value of a kind; None if it has no rule, or other numbers."""
    try:
        return scaled(op, STATES[kind], op.declare((STATES[kind],))[0][0])
    except StateError:
        return None


def one_of_each() -> Iterator[Op]:
    """Yield the first example of each op that takes an RGB image or a mask."""
    found: set[str] = set()
    for entry in json.loads(GOLDEN.read_text()):
        op = make(entry["op"], entry["params"])
        if op.name not in found and (any(result(op, kind) for kind in STATES)):
            found.add(op.name)
            yield op


@pipeline
def every(sample: Any) -> dict[str, Any]:
    """Each op on its own, jointly on image, image of floats and mask where it takes them."""
    image, mask, boxes = ops.center_crop(sample.image, sample.mask, sample.boxes, size=SIDE)
    given = {"image": image, "floats": ops.to_float(image), "mask": ops.unlinked(mask)}
    made: dict[str, Any] = {}
    for op in one_of_each():
        taken = {kind: value for kind, value in given.items() if result(op, kind)}
        looked_at = [boxes] if op.draws_from == "boxes" else []
        values = op(*taken.values(), *looked_at)
        made_of = values if len(taken) + len(looked_at) > 1 else [values]
        for kind, value in zip(taken, made_of, strict=False):
            state = result(op, kind)
            before = STATES[kind]
            same = state and (state.kind, state.dtype) == (before.kind, before.dtype)
            made[f"{op.name} {kind}"] = ops.center_crop(value, size=SMALL) if same else value
    return made


def digests(ids: Iterable[int]) -> dict[str, dict[str, str]]:
    """Return id -> output -> digest of the rows of an epoch, by the interpreter."""
    photo = data.chelsea()[:120, :160].copy()
    boxes = {"xyxy": np.array([[60, 30, 100, 80], [70, 50, 90, 70]], np.float32)}
    fields = {"image": photo, "mask": photo[..., 1].copy(), "boxes": boxes}
    return {
        str(number): {
            name: hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()
            for name, value in every(fields, seed=11, epoch=3, id=number).items()
        }
        for number in ids
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests(int(word) for word in sys.argv[1:])))
