"""Custom kernels that divide by zero: one error in all engines, which names op, sample, line.

Machine code alone would give 0 or nan, which the interpreter, that divides Python's numbers, would
not give.
"""

import importlib
import linecache
import re

import numpy as np
import pytest

from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.protocol.errors import BuildError, SampleError
from stoker.rng.row import Row, row_table

BLACK = np.zeros((8, 9, 3), np.uint8)
ENGINES = (Interpreter, compile_plan, Guarded)
ROW = Row(seed=5, id=7, epoch=2)


@pytest.fixture(scope="module")
def dividing(user_folder):
    return importlib.import_module("dividing_ops")


def plan_of(op, image=BLACK, form=lambda value: value):
    @pipeline
    def train(sample):
        return {"image": form(op(sample.image))}

    return train.plan_for({"image": image})


def ran(engine, plan, image=BLACK):
    made = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    engine(plan).run(ROW, [image], made)
    return made[0]


CASES = {
    "by_level": ("image kernel", "return left // right"),
    "by_side": ("image kernel", "src.shape[0] % (src.shape[1] - 9)"),
    "by_real": ("image kernel", "level / level"),
    "drawn": ("draw", "7 // (width - 9)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_by_zero(dividing, name):
    what, code = CASES[name]
    plan, told = plan_of(getattr(dividing, name)()), set()
    for engine in ENGINES:
        with pytest.raises(BuildError) as caught:
            ran(engine, plan)
        told.add(str(caught.value))
        details = caught.value.details
        assert (details["op"], details["id"], details["epoch"], details["seed"]) == (name, 7, 2, 5)
        assert details["file"] == __file__
    (text,) = told
    assert f"op '{name}': its {what} (" in text
    assert "at sample 7, epoch 2, seed 5. A kernel must not raise: test a divisor" in text
    place = re.search(r"divides by zero in (.*dividing_ops\.py):(\d+), at", text)
    assert code in linecache.getline(place[1], int(place[2]))


@pytest.mark.slow
def test_by_what_is_not_zero(dividing):
    bright = BLACK + np.uint8(3)
    for name, first in (("by_level", 2), ("by_real", 1)):
        plan = plan_of(getattr(dividing, name)())
        assert [int(ran(engine, plan, bright)[0, 0, 0]) for engine in ENGINES] == [first] * 3


@pytest.mark.slow
def test_in_a_chunk_the_row_is_named(dividing, located):
    """The draws of the row before have no effect: a draw fails before it is made."""
    images = np.full((4, 8, 9, 3), 4, np.uint8)
    images[2] = 0
    plan = plan_of(dividing.by_level())
    rows = [Row(5, sample, 2) for sample in (30, 20, 10, 40)]
    batch = [np.zeros((4, *o.shape), o.dtype) for o in plan.outputs]
    engine = compile_plan(plan)
    for _ in range(2):
        with pytest.raises(BuildError, match=r"divides by zero .* at sample 10, epoch 2, seed 5"):
            engine.run_rows(row_table(rows), located([images], np.arange(4)), batch)
    engine.run_rows(row_table(rows[:2]), located([images], np.arange(2)), [b[:2] for b in batch])
    assert batch[0][:2, 0, 0, 0].tolist() == [2, 2]


@pytest.mark.slow
def test_sizes(dividing):
    for engine in ENGINES:
        with pytest.raises(BuildError, match=r"its out_size .* divides by zero in .* sample 7"):
            ran(engine, plan_of(dividing.ByHeight(), form=outputs.as_list))
        with pytest.raises(SampleError, match=r"gives a size of -1x9, which is out of the bounds"):
            ran(engine, plan_of(dividing.NoNumber(), form=outputs.as_list))


@pytest.mark.slow
def test_zeros_among_the_divisors_of_a_whole_array(dividing):
    image = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
    plan = plan_of(dividing.Careful(), image)
    levels = image.ravel().tolist()
    expected = [255 // level if level else 0 for level in levels]
    assert all(ran(engine, plan, image).ravel().tolist() == expected for engine in ENGINES)
