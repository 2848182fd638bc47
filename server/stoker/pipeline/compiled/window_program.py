"""The box of an encoded image that a pipeline will read, computed before the image is decoded.

A decision depends on the row and on sizes only, and sizes are in the dataset's side columns. So if
every use of a field is an op that reads a box of it (`Op.reads`), or only its height and width, the
box is computed first and the decoder skips the rest. Several crops of one image read the box around
them all. The decisions are drawn into the records of the engine, which does not draw them again.

A small program calls the ops' rules (`box_program`). Belongs to one thread. Imports numba when an
instance is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from stoker.pipeline.compiled.emitter import Emitter, Program
from stoker.pipeline.compiled.kernel_calls import reads_of
from stoker.pipeline.compiled.machine import Machine
from stoker.pipeline.engine.interface import Freeze, check_freeze
from stoker.pipeline.planning.decision import Decision, made_for
from stoker.pipeline.planning.decoded_boxes import Box, field_values, wanted_windows
from stoker.pipeline.planning.engine_tables import (
    aligned_arena,
    params_table,
    records_table,
    streams_table,
)
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.slot_layout import ALIGN
from stoker.rng.row import Row, write_row


def box_program(
    found: Mapping[str, Sequence[Decision]], fields: Sequence[str], values: Mapping[int, str]
) -> Program:
    """Write a program that computes which boxes of their images decisions read.

    Args:
        found: field -> the decisions that choose its box.
        fields: those whose sizes are known; the fields of `found` come first.
        values: value of the plan -> its field.

    Returns:
        The program. The first lines of its value table are `fields`, whose sides the caller sets;
        then one line per field of `found`, whose words after the first become top, left, bottom
        and right.
    """
    lines = [[0, 1, 1]] * len(fields) + [[0]] * len(found)
    emit = Emitter(values=[list(words) for words in lines])
    for field_line, decisions in enumerate(found.values()):
        for number, decision in enumerate(decisions):
            op, box, source = type(decision.op), len(fields) + field_line, decision.source
            if source is None:
                emit.draw(decision, field_line)
            else:
                of = fields.index(values[made_for(source)])
                emit.draw(source, of)
                emit.rescale(decision, of, field_line, 0)
            begins = int(not number)
            emit.add("box", 0, box, field_line, decision.index, begins, call=reads_of(op))
    return emit.program()


class Windows:
    """Computes the boxes that rows of a plan read.

    Attributes:
        fields: the fields whose boxes it computes, in the order of `boxes`.
        sized: the fields whose sizes it needs.
        drawn: indices of the decisions that are drawn.
    """

    def __init__(
        self,
        plan: Plan,
        wanted: Collection[str],
        freeze: Freeze | None = None,
        records: np.ndarray | None = None,
    ) -> None:
        """Compile, or load from the cache on disk.

        Args:
            plan: the plan.
            wanted: fields whose boxes are useful.
            freeze: as for the engine.
            records: the records to draw into, `Executor.record_table`; None: its own table.

        Raises:
            ResourceError: the kernel cache cannot be written.
        """
        found, self.sized = wanted_windows(plan, wanted)
        self.fields = tuple(found)
        drawn = (d.source or d for decisions in found.values() for d in decisions)
        self.drawn = sorted({decision.index for decision in drawn})
        if not found:
            return
        self._rows = np.zeros((1, 4), np.uint64)
        self._samples = np.zeros((0, 1), np.int64)
        self._machine = Machine(
            box_program(found, self.sized, field_values(plan)),
            0,
            0,
            streams_table(plan.decisions, check_freeze(plan, freeze)),
            params_table(plan.decisions),
            records_table(plan.decisions) if records is None else records,
            aligned_arena(0, ALIGN),
        )

    def boxes(self, row: Row, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Box]:
        """Return the box of each field that a row reads; `sizes` are (height, width) by field."""
        write_row(self._rows[0], row)
        count, values = len(self.sized), self._machine.values
        for place, name in enumerate(self.sized):
            values[place, 1], values[place, 2] = sizes[name]
        self._machine.run(self._rows, self._samples)
        found = {}
        boxes = values[count : count + len(self.fields)].tolist()
        for name, words in zip(self.fields, boxes, strict=True):
            top, left, bottom, right = words[1:5]
            found[name] = (top, left, bottom - top, right - left)
        return found
