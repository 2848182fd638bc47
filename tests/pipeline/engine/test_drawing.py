"""Draw records as bytes: both engines write the same, and they read back as what was drawn."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.client.batches.batch_params import read_params
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.engine.drawing import Recorder, drawn_by, row_bytes
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.draw_records import check_drawn


@pytest.fixture(scope="module")
def plan(toys, varied):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=40)
        if sample.label > 2:
            image = toys.shift(image, stream="same")
        else:
            image = toys.flip(image, stream="same")
        return {"image": toys.scale(image), "mask": mask}

    return bind(train.graph(), varied)


def test_both_engines_write_what_was_drawn(plan, photo, rows):
    engines = Interpreter(plan), compile_plan(plan)
    recorders = [Recorder(engine) for engine in engines]
    tables = [np.full((len(rows), row_bytes(plan)), 77, np.uint8) for _ in engines]
    expected = []
    for place, row in enumerate(rows):
        fields = {"image": photo[0], "mask": photo[1], "label": np.int64(place % 5)}
        inputs = [fields[name] for name in plan.fields]
        for engine, recorder, table in zip(engines, recorders, tables, strict=True):
            engine.run(row, inputs, [np.zeros(o.shape, o.dtype) for o in plan.outputs])
            recorder.write(table[place])
        expected.append({entry["op"]: entry["record"] for entry in engines[0].records()})
    assert tables[0].tobytes() == tables[1].tobytes()
    drawn = drawn_by(plan)
    check_drawn(drawn, row_bytes(plan))
    found = read_params(drawn, tables[0])
    ops = {one.name: one.op for one in drawn}
    assert ops == {"toy_crop": "toy_crop", "same": "toy_shift", "same#2": "toy_flip"}
    for name, table in found.items():
        for record, made in zip(table, expected, strict=True):
            assert record["made"] == (ops[name] in made)
            for field, value in made.get(ops[name], {}).items():
                assert record[field] == value
            if not record["made"]:
                assert not any(record.tolist())
    assert set(found["same"]["made"]) == {True, False}
    assert found["toy_crop"]["made"].all()


def test_a_plan_that_draws_nothing_has_no_bytes(toys, varied):
    @pipeline
    def plain(sample):
        return {"label": sample.label}

    bound = bind(plain.graph(), varied)
    assert (drawn_by(bound), row_bytes(bound)) == ((), 0)
