"""Decisions without pixels equal those with them; plans can be read."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.ops.contract.states import State
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.showing.explain_plan import explain
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import ItemField
from stoker.rng.row import Row


@pytest.fixture(scope="module")
def plan(toys, varied):
    @pipeline
    def train(sample):
        image, mask = toys.trim(sample.image, sample.mask)
        image, mask = toys.crop(image, mask, side=40)
        if sample.label > 2 and image.height == 40:
            image = toys.shift(toys.flip(image))
        elif sample["stoker.epoch"] == 1:
            image = toys.flip(image, stream="other")
        return {"image": image, "mask": mask, "view": sample["stoker.view"], "n": sample.label + 1}

    return bind(train.graph(), varied)


def test_decide_equals_run(plan, photo, rows):
    image, mask = photo
    plain, fast = Interpreter(plan), compile_plan(plan)
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    seen = set()
    for label, row in enumerate(rows):
        fields = {"image": image, "mask": mask, "label": np.int64(label % 5)}
        inputs = [fields[name] for name in plan.fields]
        plain.run(row, inputs, outputs)
        sizes = {"image": image.shape[:2], "mask": mask.shape[:2]}
        decided = decide(plan, row, sizes, {"label": label % 5})
        assert decided == plain.records()
        assert outputs[2] == row.view
        assert outputs[3] == label % 5 + 1
        fast.run(row, inputs, outputs)
        made = {entry["stream"]: entry["record"] for entry in fast.records()}
        assert all(made[entry["stream"]] == entry["record"] for entry in decided)
        seen.add(tuple(entry["stream"] for entry in decided))
    assert len(seen) == 3


@pytest.mark.parametrize("given", [2, {"xyxy": []}, np.zeros((2, 4), np.float32), np.zeros(4)])
def test_decide_takes_items_as_records(given):
    items = (ItemField("xyxy", "float32", 4),)
    plan = bind(
        pipeline(lambda s: {"boxes": s.boxes, "label": s.label}).graph(),
        {"boxes": State.ragged("boxes", items, 8), "label": State.fixed("label", "int64", ())},
    )
    message = r"field 'boxes' is .*: expected its records in items, \(n, 4\) uint32, got .* scalars"
    with pytest.raises(UsageError, match=message):
        decide(plan, (1, 2, 3), {}, {"label": 1}, items={"boxes": given})
    with pytest.raises(UsageError, match=r"field 'label' is .*: items are boxes or keypoints"):
        decide(plan, (1, 2, 3), {}, {"label": 1}, items={"label": given})
    decide(plan, Row(1, 2, 3), {}, {"label": 1}, items={"boxes": np.zeros((2, 4), np.uint32)})


def test_explain(plan):
    text = explain(plan)
    for part in (
        f"pipeline {plan.pipeline_id}",
        "streams: other, toy_crop, toy_flip, toy_shift, toy_trim",
        f"scratch arena: {plan.arena_bytes} bytes",
        "= field 'image': image uint8[<=512x<=512x3], in the input",
        "stream 'toy_trim' (",
        "have one size",
        "mask: mask uint8 (40, 40)",
        "  else:",
        "the row's epoch",
        "output 'n' = v",
    ):
        assert part in text, text
