"""The page on which a worker shows what it does, and what the daemon reads of it."""

import ctypes
import mmap
import random

import pytest

from stoker.pipeline.engine.shown_program import ShownProgram
from stoker.pipeline.engine.stage_clock import FIRST_OP, FIXED, MAX_OPS
from stoker.server.workers.child_config import IDLE, PROGRAM_AT, PROGRESS, PROGRESS_BYTES
from stoker.server.workers.stage_page import OPENING, STATES, Doing, StagePage, StageReader

BLUR = ShownProgram(bytes([0, 3, 4, 5]), ("crop (a.py:1)", "blur (a.py:2)"))


@pytest.fixture
def page():
    shared = mmap.mmap(-1, PROGRESS_BYTES)
    PROGRESS.pack_into(shared, 0, *IDLE)
    return shared


def line(stage: StagePage, number: int, row: int = 0) -> None:
    """Write what the loop of programs writes."""
    (ctypes.c_int64 * 2).from_address(stage.address)[:] = [number, row]


def test_the_reader_says_what_the_writer_does(page):
    reader = StageReader(page)
    assert reader.read() == Doing("idle")
    stage = StagePage(page)
    assert reader.read() == Doing("idle")
    stage.enter(OPENING)
    assert reader.read() == Doing("opening")
    assert STATES[:FIRST_OP] == FIXED
    for number, name in enumerate(FIXED):
        stage.enter(number)
        assert reader.read() == Doing(name)
    stage.show(BLUR)
    assert reader.read() == Doing("other"), "a line of another program may stand there"
    PROGRESS.pack_into(page, 0, 7, 3, 11)
    for number, (state, op) in enumerate(
        [("other", ""), ("write", ""), ("op", BLUR.ops[0]), ("op", BLUR.ops[1])]
    ):
        line(stage, number)
        assert reader.read() == Doing(state, op, 7, 3, 11)
    line(stage, 3, 5)
    assert reader.read().place == 5
    stage.show(ShownProgram(bytes([4]), ("resize (b.py:1)",)))
    line(stage, 0)
    assert reader.read().op == "resize (b.py:1)"
    stage.show(BLUR)
    line(stage, 3)
    assert reader.read().op == BLUR.ops[1]


def test_a_program_that_does_not_fit_has_no_names(page):
    reader, stage = StageReader(page), StagePage(page)
    names = tuple(f"{number}{'n' * 1000}" for number in range(MAX_OPS))
    stage.show(ShownProgram(bytes([4]), names))
    line(stage, 0)
    assert reader.read() == Doing("other")


def test_no_bytes_of_the_page_are_more_than_a_wrong_stage(page):
    reader, stage = StageReader(page), StagePage(page)
    stage.show(BLUR)
    numbers = random.Random(0)
    for _ in range(2000):
        for _ in range(4):
            at = numbers.choice([numbers.randrange(PROGRESS_BYTES), numbers.randrange(128)])
            page[at] = numbers.randrange(256)
        for at in range(16):
            page[PROGRAM_AT + at] = numbers.randrange(256)
        found = reader.read()
        assert found.state in {*STATES, "op"}
        assert isinstance(found.op, str)
        assert all(one is None or 0 <= one <= 2**48 for one in found[2:5])
