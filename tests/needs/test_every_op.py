"""Needs of users for every op: the same bytes in any process, kinds not guessed, edits local."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from skimage import data

from stoker import ops
from stoker.ops import Op, registered
from stoker.ops.contract.kernel_forms import same_size
from stoker.ops.contract.states import State
from stoker.pipeline import Row, pipeline
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import ItemField, item_words

IDS = range(12)
PROCESSES = 2


@pytest.mark.as_a_user
@pytest.mark.slow
def test_every_op_gives_the_same_bytes_in_any_process(every_op):
    """Each process starts afresh, hashes otherwise, and takes its ids backwards."""
    expected = every_op.digests(IDS)
    assert len({json.dumps(row) for row in expected.values()}) == len(IDS)
    covered = {name.split()[0] for name in expected["0"]}
    assert covered == {n for n, op in registered().items() if {"image", "mask"} & set(op.kernels)}
    started = [
        subprocess.Popen(
            [sys.executable, every_op.__file__, *map(str, reversed(IDS[k::PROCESSES]))],
            env={**os.environ, "PYTHONHASHSEED": str(k + 1)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(PROCESSES)
    ]
    found = [json.loads(process.communicate()[0]) for process in started]
    assert {number: row for part in found for number, row in part.items()} == expected


def test_a_kind_without_a_rule_is_refused_by_line(every_op):
    """No op passes on a value that it has no rule for."""
    refused = 0
    for op in every_op.one_of_each():
        for kind in ("image", "mask"):
            if every_op.result(op, kind) is None:

                @pipeline
                def train(sample, op=op, kind=kind):
                    return {"value": op(sample[kind])}

                with pytest.raises(BuildError) as caught:
                    bind(train.graph(), every_op.STATES)
                message = str(caught.value)
                assert "test_every_op.py:" in message
                assert op.name in message
                assert kind in message
                refused += 1
    assert refused > 20


BOXES = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
POINTS = (ItemField("xy", "float32", 2), ItemField("person", "uint8"))
RAGGED = {
    "mask": State("mask", "uint8", (None, None), (64, 64)),
    "boxes": State.ragged("boxes", BOXES, 5, "mask"),
    "keypoints": State.ragged("keypoints", POINTS, 5, "mask"),
}


def of_items(every_op) -> list[Op]:
    """Every op with a rule for boxes or keypoints, those of boxes alone too."""
    named = [getattr(ops, name) for name in ops.__all__]
    classes = [cls for cls in named if isinstance(cls, type) and issubclass(cls, Op)]
    alone = [
        cls("xywh") if cls is ops.ConvertBoxes else cls()
        for cls in classes
        if cls.items and not cls.kernels and cls is not ops.SwapKeypoints  # it needs a field
    ]
    return [op for op in every_op.one_of_each() if {"boxes", "keypoints"} & set(op.kinds())] + alone


def test_a_picture_without_boxes_is_legal_for_every_op(every_op):
    """None come out, of the right fields; unless an op looks at them, the mask is as without."""
    names, photo = set(), data.chelsea()[100:148, 100:160, 1].copy()
    for op in of_items(every_op):
        kinds = [kind for kind in RAGGED if kind in op.kinds()]

        @pipeline
        def moved(sample, op=op, kinds=kinds):
            values = op(*(sample[kind] for kind in kinds))
            made = dict(zip(kinds, values if len(kinds) > 1 else [values], strict=True))
            if "mask" in made:
                made["mask"] = ops.resize(made["mask"], size=(16, 16))
            return made

        plan = bind(moved.graph(), RAGGED)
        given = {
            "mask": photo,
            "boxes": np.zeros((0, item_words(BOXES)), np.uint32),
            "keypoints": np.zeros((0, item_words(POINTS)), np.uint32),
        }
        for number in range(6):
            made = {o.name: np.full(o.shape, 9, o.dtype) for o in plan.outputs}
            row = Row(seed=1, id=number, epoch=0)
            Interpreter(plan).run(row, [given[name] for name in plan.fields], list(made.values()))
            assert all(made[f"{kind}.count"] == 0 for kind in kinds if kind != "mask"), op
            if "mask" in kinds and not op.draws_from:
                alone = pipeline(lambda s, op=op: {"mask": ops.resize(op(s.mask), size=(16, 16))})
                found = alone({"mask": photo}, seed=1, id=number)["mask"]
                assert np.array_equal(found, made["mask"]), op
        names.add(op.name)
    assert names >= {
        "rotate",
        "erase",
        "iou_crop",
        "filter_boxes",
        "convert_boxes",
        "convert_keypoints",
        "track_visible",
    }
    assert len(names) > 20


def keeps_size(op: Op) -> bool:
    return op.random and "image" in op.kernels and type(op).out_size is same_size


def decided(chosen: list[Op], number: int) -> dict[str, object]:
    """The decision of each op of a chain for a row: stream -> record."""

    def chain(sample):
        value = sample.image
        for op in chosen:
            value = op(value)
        return {"image": ops.center_crop(value, size=16)}

    plan = pipeline(chain).plan_for({"image": np.zeros((40, 56, 3), np.uint8)})
    entries = decide(plan, Row(seed=5, id=number, epoch=number % 3), sizes={})
    return {entry["stream"]: entry["record"] for entry in entries if entry["stream"]}


@pytest.mark.parametrize("seed", range(40))
def test_an_edit_leaves_what_others_decide(every_op, seed):
    """An op is put in, taken out, moved, or given p=0: the others decide as before."""
    rng = np.random.default_rng(seed)
    able = [op for op in every_op.one_of_each() if keeps_size(op)]
    picked = [able[i] for i in rng.permutation(len(able))[:7]]
    *chain, new = picked
    place = int(rng.integers(len(chain)))
    switch = next(op for op in chain if "p" in {f.name for f in dataclasses.fields(op)})
    edits = {
        "put in": [*chain[:place], new, *chain[place:]],
        "taken out": [op for op in chain if op is not chain[place]],
        "moved": [chain[i] for i in rng.permutation(len(chain))],
        "off": [dataclasses.replace(op, p=0.0) if op is switch else op for op in chain],
    }
    for number in range(3):
        before = decided(chain, number)
        assert len(before) == len(chain)
        for what, edited in edits.items():
            after = decided(edited, number)
            common = (before.keys() & after.keys()) - ({switch.name} if what == "off" else set())
            assert len(common) >= len(chain) - 1, what
            assert {n: before[n] for n in common} == {n: after[n] for n in common}, what
