"""Which box of an encoded picture a pipeline will read, known before the picture is decoded.

A decision is a function of the row and of sizes, and sizes are in the dataset's side columns. So
where every use of a field is an op that reads a box of it (`Op.reads`), or its height and width
alone, the box is computed first and the decoder leaves out the rest. Several crops of one image
read the box around them all. The decisions are drawn into the records of the engine, which does not
draw them again.

A small program asks the ops (`box_program`). Belongs to one thread. Imports numba once it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from stoker.pipeline.compiled.calls import reads_of
from stoker.pipeline.compiled.emitter import Emitter, Program
from stoker.pipeline.compiled.machine import Machine
from stoker.pipeline.engine.interface import Freeze, check_freeze
from stoker.pipeline.planning.boxes import Box, field_values, wanted_windows
from stoker.pipeline.planning.decision import Decision, made_for
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.tables import (
    aligned_arena,
    params_table,
    records_table,
    streams_table,
)
from stoker.protocol.layout import ALIGN
from stoker.rng.row import Row, write_row


def box_program(
    found: Mapping[str, Sequence[Decision]], fields: Sequence[str], values: Mapping[int, str]
) -> Program:
    """Write a program that asks decisions which boxes of their pictures are read.

    Args:
        found: field -> the decisions that say which.
        fields: those whose sizes are known; the ones of `found` come first.
        values: value of the plan -> the field that it is.

    Returns:
        The program. Its first lines of values are `fields`, of which the sides are to be set; as
        many as `found` has follow, whose words after the first become top, left, bottom and right.
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
        fields: the fields that it knows boxes of, in the order of `boxes`.
        sized: the fields whose sizes it asks for.
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
            wanted: fields whose boxes are of use.
            freeze: as for the engine.
            records: where records are drawn, `Executor.record_table`; None: a table of its own.

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
            values[place, 1:3] = sizes[name]
        self._machine.run(self._rows, self._samples)
        found = {}
        boxes = values[count : count + len(self.fields)].tolist()
        for name, words in zip(self.fields, boxes, strict=True):
            top, left, bottom, right = words[1:5]
            found[name] = (top, left, bottom - top, right - left)
        return found
