"""What another process needs to name the op that a program executes now.

The loop of programs writes its line into memory that both processes map (`stage_clock.SHOWN`), at
the cost of one store for each instruction. A `ShownProgram` turns the line into a stage; it is told
whenever another program begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, eq=False, slots=True)
class ShownProgram:
    """The stages of a program and of its timed copy.

    Attributes:
        stages: the stage of each line, see `stage_clock`; one byte each.
        ops: names of the ops that have stages, from `stage_clock.FIRST_OP` on.
    """

    stages: bytes
    ops: tuple[str, ...]


class Sign(Protocol):
    """Shows another process what this one does.

    Attributes:
        address: of two int64 in memory that the other process maps.
    """

    address: int

    def show(self, program: ShownProgram) -> None:
        """Note that the lines at `address` are those of this program from now on."""
