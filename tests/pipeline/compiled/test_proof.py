"""Programs that do not fit their plan are refused before anything runs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.loop_instructions import CODES, FORMS
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.compiled.proof import prove
from stoker.pipeline.planning.planner import bind


@pytest.fixture(scope="module")
def plan():
    @pipeline
    def train(sample):
        image, mask = ops.random_resized_crop(sample.image, sample.mask, size=(24, 32))
        image = ops.gaussian_blur(image)
        return {"image": ops.normalize(image, dtype="float16"), "mask": mask, "plain": image}

    image = State("image", "uint8", (None, None, 3), (64, 80, 3))
    return bind(train.graph(), {"image": image, "mask": State.fixed("mask", "int32", (64, 80))})


def line_of(program, name, what):
    """Return the first line of an instruction whose call has `what` in its name."""
    lines = (line for line, row in enumerate(program.code) if row[0] == CODES[name])
    return next(line for line in lines if what in str(program.calls[line]))


def changed(plan, name, what, **operands):
    """Return the plan's program with other operands in one line."""
    program = write_program(plan)
    line = line_of(program, name, what)
    for operand, value in operands.items():
        program.code[line, 1 + FORMS[name].index(operand)] = value
    return program


def test_programs_as_they_are_written_pass(plan):
    prove(plan, write_program(plan))


@pytest.mark.parametrize(
    ("name", "what", "operands", "message"),
    [
        ("kernel", "of normalize", {"ranks": 8 * 2 + 3}, "its arrays have other ranks than image"),
        ("kernel", "of normalize", {"into": 4}, "elements of array float16.* do not have 4 bytes"),
        ("kernel", "of normalize", {"item": 2}, "elements of image uint8.* do not have 2 bytes"),
        (
            "kernel",
            "image kernel of gaussian",
            {"src": 7},
            "compiled for image .*, value 7 is mask",
        ),
        ("kernel", "of normalize", {"src": 1}, "value 1 has no memory"),
        ("kernel", "mask kernel", {"src": 0}, "compiled for mask int32.*, value 0 is image uint8"),
        ("kernel", "of normalize", {"decision": 0}, "decision 0 is of random_resized_crop"),
        ("draw", "of gaussian_blur", {"decision": 9}, "there is no decision 9"),
        ("kernel", "of gaussian_blur", {"bytes": 10**9}, "its scratch is in bytes"),
        ("kernel", "of gaussian_blur", {"at": -64}, "its scratch is in bytes -64"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(plan, name, what, operands, message):
    with pytest.raises(TypeError, match=message):
        prove(plan, changed(plan, name, what, **operands))


def test_places_that_do_not_fit_are_refused(plan):
    program = write_program(plan)
    program.values[program.arena[0], 0] = plan.arena_bytes
    with pytest.raises(TypeError, match=r"program: value \d+ is in bytes"):
        prove(plan, program)
    program = write_program(plan)
    slot = next(row for row in program.code if row[0] == CODES["slot"])
    slot[2] = (slot[2] + 1) % len(plan.outputs)
    with pytest.raises(TypeError, match=r"value \d+ is .*, a row of '\w+'"):
        prove(plan, program)
    blur = write_program(plan)
    line = line_of(blur, "kernel", "of gaussian_blur")
    source = blur.code[line, 1 + FORMS["kernel"].index("src")]
    blur.code[line, 1 + FORMS["kernel"].index("at")] = blur.values[source, 0]
    with pytest.raises(TypeError, match="overlaps memory that it reads or writes"):
        prove(plan, blur)


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("each", {"dtype": 1}, r"takes value \d+ for rank 1 of uint8 with 4 bytes, which is array"),
        ("each", {"into": 8}, r"for rank 1 of float32 with 8 bytes, which is array float32"),
        ("each", {"rank": 2}, r"takes value \d+ for rank 2 of float32"),
        ("each", {"left_item": 2}, r"for rank 1 of float32 with 2 bytes"),
        ("each", {"right_dtype": 9}, "its number is a word, not float32"),
        ("each", {"dst": 10**6}, "value 1000000 has no memory"),
        ("element", {"rank": 0}, r"takes value \d+ for rank 0 of float32"),
        ("element", {"item": 8}, r"for rank 1 of float32 with 8 bytes"),
    ],
)
def test_arithmetic_that_does_not_fit_is_refused(name, operands, message):
    @pipeline
    def computed(sample):
        return {"scaled": sample.vector * 2 + sample.vector[1]}

    plan = computed.plan_for({"vector": np.float32([1, 2, 3])})
    program = write_program(plan)
    prove(plan, program)
    line = next(number for number, row in enumerate(program.code) if row[0] == CODES[name])
    for operand, value in operands.items():
        program.code[line, 1 + FORMS[name].index(operand)] = value
    with pytest.raises(TypeError, match=message):
        prove(plan, program)


def test_a_result_over_its_operand_is_refused():
    @pipeline
    def computed(sample):
        return {"scaled": (sample.vector * 2 + 1) * 3}

    plan = computed.plan_for({"vector": np.float32([1, 2, 3])})
    program = write_program(plan)
    rows = [row for row in program.code if row[0] == CODES["each"]]
    program.values[rows[1][1], 0] = program.values[rows[0][1], 0]
    with pytest.raises(TypeError, match=r"it reads value \d+ where it writes"):
        prove(plan, program)


def without_a_call(plan):
    program = write_program(plan)
    line = line_of(program, "kernel", "of normalize")
    calls = {place: call for place, call in program.calls.items() if place != line}
    return plan, dataclasses.replace(program, calls=calls)


def with_a_small_arena(plan):
    return dataclasses.replace(plan, arena_bytes=64), write_program(plan)


@pytest.mark.parametrize(
    ("change", "message"),
    [(without_a_call, r"line \d+, None: nothing is called"), (with_a_small_arena, "of 64")],
)
def test_a_program_that_does_not_fit_its_plan_is_refused(plan, change, message):
    with pytest.raises(TypeError, match=message):
        prove(*change(plan))
