"""The clock of stages: how long a row spends in reading, decoding, each op, and writing.

A table of 64-bit integers, which Python and machine code write alike: the loop of a compiled plan
executes a `mark` instruction where the program goes from one stage to the next
(`compiled.timed_program`), and `StageClock.enter` is the same in Python. Every moment between
`begin` and `end` counts for one stage. Two clocks run: the time that passes, and the processor time
of the process with all its threads. A stage that waits, for storage or in a function that sleeps,
takes much of the first and little of the second.

Nothing of a row depends on the table. Times are nanoseconds. Belongs to one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from time import CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, clock_gettime_ns
from typing import Any, Final, NamedTuple

import numpy as np

SPLIT: Final = 0
"""Word of the table: lines of the program before its timed copy."""
ROW: Final = 1
"""The row of a run that is timed; -1: none."""
FUNCTION: Final = 2
"""Address of `clock_gettime`."""
STAGE: Final = 3
"""The stage that counts now; `NOTHING` between rows."""
WALL: Final = 4
"""When it began, by the time that passes (4) and by processor time (5)."""
CPU: Final = 5
COST: Final = 6
"""What the last reading of the clocks cost: taken off from the processor time of the stage."""
SHOWN: Final = 7
"""Address of two words that the loop of programs writes, for other processes to see; timed or not:
the line of the program that it executes, and the row of its run."""
TOTALS: Final = 8
"""Two words for each stage: its time, and its processor time."""

MOST_COST_NS: Final = 2000
"""A reading that took longer was interrupted, and cost no processor time for so long."""
NOTHING: Final = -1
OTHER, READ, DECODE, WRITE = range(4)
FIRST_OP: Final = 4
FIXED: Final = ("other", "read", "decode", "write")
"""Names of the stages that every pipeline has."""
MAX_OPS: Final = 60
"""Ops that are timed by themselves; the time of further ones counts as "other"."""
WORDS: Final = TOTALS + 2 * (FIRST_OP + MAX_OPS)


class StageTime(NamedTuple):
    """The time of one stage: seconds that passed, and seconds of processor time.

    Attributes:
        stage: "read", "decode", "write", "other", or "op".
        op: of an op its name, and where the user wrote it; else empty.
        wall_s: seconds that passed.
        cpu_s: seconds of processor time.
    """

    stage: str
    op: str
    wall_s: float
    cpu_s: float


class StageClock:
    """Times rows, one after the other.

    Attributes:
        table: what machine code writes, (WORDS,) int64.
        runs: whether a row is being timed.
    """

    def __init__(self) -> None:
        self.table = np.zeros(WORDS, np.int64)
        self.table[FUNCTION] = _clock_address()
        self.table[STAGE] = NOTHING
        self._words: Any = memoryview(self.table)  # type: ignore[arg-type]  # is a buffer
        self.runs = False

    def begin(self) -> int:
        """Begin to time a row; return the time."""
        self.arm(0)
        self.runs = True
        return self.enter(OTHER)

    def arm(self, row: int) -> None:
        """Let machine code time that row of its next run, from first to last instruction."""
        words = self._words
        words[ROW], words[STAGE] = row, NOTHING

    def enter(self, stage: int) -> int:
        """Count the time from now on for a stage, and return it; see `compiled.loop.mark`."""
        words = self._words
        wall = clock_gettime_ns(CLOCK_MONOTONIC)
        cpu = clock_gettime_ns(CLOCK_PROCESS_CPUTIME_ID)
        before = words[STAGE]
        if before >= 0:
            words[TOTALS + 2 * before] += wall - words[WALL]
            words[TOTALS + 2 * before + 1] += max(cpu - words[CPU] - words[COST], 0)
        words[STAGE], words[CPU] = stage, cpu
        words[WALL] = after = clock_gettime_ns(CLOCK_MONOTONIC)
        words[COST] = min(after - wall, MOST_COST_NS)
        return wall

    def end(self) -> int:
        """End the row; return the time."""
        self.runs = False
        return self.enter(NOTHING)

    def passed_ns(self) -> int:
        """Return the time of all stages since `take`."""
        return int(self.table[TOTALS::2].sum())

    def take(self, ops: Sequence[str]) -> list[StageTime]:
        """Return the times of the stages that were entered, and begin anew.

        Args:
            ops: names of the ops, in the order of their stages.
        """
        times = self.table[TOTALS:].reshape(-1, 2)
        found = [
            StageTime(*_named(stage, ops), *(times[stage] / 1e9).tolist())
            for stage in np.flatnonzero(times.any(axis=1)).tolist()
        ]
        times[...] = 0
        return found


def _named(stage: int, ops: Sequence[str]) -> tuple[str, str]:
    return (FIXED[stage], "") if stage < FIRST_OP else ("op", ops[stage - FIRST_OP])


def _clock_address() -> int:
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    assert address is not None
    return address
