"""FFCV operations as steps of a Stoker pipeline: they draw from the row's key alone."""

import importlib

import kinds_python
import numpy as np
import pytest

from stoker.compat.ffcv.pipeline import Compiler
from stoker.ops.custom.foreign import generator
from stoker.pipeline import Row
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.rng.draws import integers
from stoker.rng.streams import make_key, stream_key


@pytest.fixture(scope="module")
def pipeline_ops(user_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiler, "_enabled", False)
        yield importlib.import_module("pipeline_ops")


def test_draws_are_those_of_the_rows_key_in_both_engines(pipeline_ops):
    image = np.random.default_rng(0).integers(0, 150, (6, 8, 3), dtype=np.uint8)
    plan = pipeline_ops.train.plan_for({"image": image})
    assert plan.streams == ("CORNER", "SHIFT")
    engines = Interpreter(plan), compile_plan(plan)
    for row in (Row(3, 17, 1), Row(2**64 - 1, 2**40, 0, 5, 6), Row(0, 0, 0)):
        where = (row.id, row.epoch, row.visit, row.view)
        corner, shift = (make_key(row.seed, stream_key(s), *where) for s in plan.streams)
        first = integers(corner, 0, 4) == 0
        expected = (image[:3, :4] if first else image[3:, 4:]) + np.uint8(integers(shift, 0, 100))
        for engine in engines:
            out = np.zeros((3, 4, 3), np.uint8)
            engine.run(row, [image], [out])
            assert np.array_equal(out, expected)


def test_an_operation_that_stays_python_is_a_step_too(pipeline_ops, interpreted):
    image = np.random.default_rng(0).integers(0, 150, (6, 8, 3), dtype=np.uint8)
    function = pipeline_ops.OperationFunction(kinds_python.Pictures())
    found = [function(image, generator(make_key(3, 4, number, 1))) for number in (1, 1, 2)]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
