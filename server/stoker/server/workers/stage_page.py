"""What a worker does now, in memory that it shares with the daemon: written by one, read by other.

The worker stores a word when it goes from one stage to the next, and the loop of programs stores
the line that it executes; nothing is sent, and no clock is read. So the daemon sees the stage of a
worker that hangs, too. A table, written when another program begins, says which op a line belongs
to. The daemon may read while the worker writes: the table has a number, which is odd meanwhile and
different afterwards. Nothing that the page holds can do more to the daemon than name a wrong stage.

Imports no NumPy: the daemon imports it.
"""

import ctypes
import mmap
import struct
from typing import Final, NamedTuple

import msgspec

from stoker.protocol.analysis import analyzed
from stoker.protocol.messages import WorkerDoes
from stoker.server.workers.child_config import (
    MAX_PROGRAM,
    PROGRAM_AT,
    PROGRESS,
    SHOWN_AT,
)

STATES: Final[tuple[WorkerDoes, ...]] = ("other", "read", "decode", "write", "idle", "opening")
"""What a worker does outside of programs; the first four are `stage_clock.FIXED`."""
OTHER, IDLE, OPENING = (STATES.index(state) for state in ("other", "idle", "opening"))
_FIRST_OP: Final = 4
_HEAD: Final = struct.Struct("=II")
"""Before the table: its number, and its bytes."""
_WORDS: Final = struct.Struct("=qq")
_TRIES: Final = 4
_MOST: Final = 2**48
"""Of claims, rows and samples; see `stoker.protocol.messages.Count`."""


class _LinesAndOps(msgspec.Struct, frozen=True, array_like=True):
    """The stage of each line of a program, one byte each, and the names of its ops."""

    stages: bytes = b""
    ops: tuple[str, ...] = ()


class Doing(NamedTuple):
    """What a worker does.

    Attributes:
        state: one of `STATES`, or "op".
        op: of an op its name, with the file and line of its call; else empty.
        claim: the chunk that it computes, by the number of its claim; None: none.
        row: the row of the global batch, if rows are computed one by one.
        sample: the sample that it reads for the row.
        place: the row of a compiled call of many.
    """

    state: WorkerDoes = "idle"
    op: str = ""
    claim: int | None = None
    row: int | None = None
    sample: int | None = None
    place: int = 0


class StagePage:
    """The worker's side.

    Attributes:
        address: of the words that the loop of programs writes; see `shown_program.Sign`.
    """

    def __init__(self, page: mmap.mmap) -> None:
        """Take the progress page; the worker is idle."""
        self._page = page
        self._first = ctypes.c_int64.from_buffer(page, SHOWN_AT)
        self.address = ctypes.addressof(self._first)
        self._number = 0
        self._program: object = None
        self.enter(IDLE)

    def enter(self, state: int) -> None:
        """Show a state, by its index in `STATES`."""
        self._first.value = ~state

    def show(self, program: object) -> None:
        """Note that lines are those of this program, a `ShownProgram`, from now on."""
        if program is not self._program:
            self._program = program
            self._write(_LinesAndOps(program.stages, program.ops))  # type: ignore[attr-defined]

    def _write(self, table: _LinesAndOps) -> None:
        self.enter(OTHER)  # the line before is not one of the new program
        data = msgspec.msgpack.encode(table)
        if len(data) > MAX_PROGRAM - _HEAD.size:
            data = msgspec.msgpack.encode(_LinesAndOps())
        start = PROGRAM_AT + _HEAD.size
        _HEAD.pack_into(self._page, PROGRAM_AT, self._number + 1, 0)
        self._page[start : start + len(data)] = data
        self._number = (self._number + 2) % 2**32
        _HEAD.pack_into(self._page, PROGRAM_AT, self._number, len(data))


class StageReader:
    """The daemon's side."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self._number = 0
        self._table = _LinesAndOps()
        _WORDS.pack_into(page, SHOWN_AT, ~IDLE, 0)

    def read(self) -> Doing:
        """Return what the worker does now."""
        for _ in range(_TRIES):
            word, place = _WORDS.unpack_from(self._page, SHOWN_AT)
            number = self._learn()
            found = PROGRESS.unpack_from(self._page)
            if (number, word) == (
                _HEAD.unpack_from(self._page, PROGRAM_AT)[0],
                _WORDS.unpack_from(self._page, SHOWN_AT)[0],
            ):
                break
        claim, row, sample = (one if 0 <= one <= _MOST else None for one in found)
        state, op = self._named(word)
        return Doing(state, op, claim, row, sample, place if state == "op" else 0)

    def _learn(self) -> int:
        """Read the table if it is another one; return its number."""
        number, size = _HEAD.unpack_from(self._page, PROGRAM_AT)
        if number != self._number and not number % 2:
            start = PROGRAM_AT + _HEAD.size
            data = self._page[start : start + min(size, MAX_PROGRAM - _HEAD.size)]
            try:
                self._table = msgspec.msgpack.decode(data, type=analyzed(_LinesAndOps))
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self._table = _LinesAndOps()
            self._number = number
        return int(number)

    def _named(self, word: int) -> tuple[WorkerDoes, str]:
        if word < 0:
            return (STATES[~word] if ~word < len(STATES) else "other"), ""
        stages, ops = self._table.stages, self._table.ops
        stage = stages[word] if word < len(stages) else OTHER
        if stage < _FIRST_OP:
            return STATES[stage], ""
        op = stage - _FIRST_OP
        return ("op", ops[op]) if op < len(ops) else ("other", "")
