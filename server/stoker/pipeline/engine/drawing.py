"""Draw records as bytes of a batch: their places in a row, and writing them.

`stoker.protocol.draw_records` defines the bytes; this module lays them out for a plan and copies
them from an engine after it has computed the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.draw_records import Drawn, DrawnField


def drawn_by(plan: Plan) -> tuple[Drawn, ...]:
    """Return the layout of a row of `params`: the decisions of a plan that draw."""
    seen: Counter[str] = Counter()
    found = []
    for decision, start, _ in _places(plan):
        stream = decision.stream or ""
        seen[stream] += 1
        name = stream if seen[stream] == 1 else f"{stream}#{seen[stream]}"
        found.append(Drawn(name, decision.op.name, start, tuple(_fields(decision, start + 1))))
    return tuple(found)


def row_bytes(plan: Plan) -> int:
    """Return the bytes of a row of `params`; 0 if nothing is drawn."""
    return max((stop for _, _, stop in _places(plan)), default=0)


class Recorder:
    """Writes the records of the row that an engine computed last.

    Attributes:
        row_bytes: bytes of the records of a row.
    """

    def __init__(self, engine: Engine, starts: Sequence[int] | None = None) -> None:
        """Prepare to write records.

        Args:
            engine: computes the rows.
            starts: where each decision is in a row that has those of other plans too; None: only
                those of this plan.
        """
        self._engine = engine
        self.row_bytes = row_bytes(engine.plan)
        own = list(_places(engine.plan))
        moved = [start for _, start, _ in own] if starts is None else starts
        self._places = [
            (decision.index, place, place + stop - start)
            for (decision, start, stop), place in zip(own, moved, strict=True)
        ]

    def write(self, out: np.ndarray) -> None:
        """Write the records into (row_bytes,) uint8."""
        for index, start, stop in self._places:
            record = self._engine.record_of(index)
            out[start] = record is not None
            out[start + 1 : stop] = 0 if record is None else np.frombuffer(record, np.uint8)

    def replace(self, out: np.ndarray, records: Mapping[int, np.ndarray]) -> None:
        """Overwrite drawn records with other ones, (1,) each, by index of the decision."""
        for index, start, stop in self._places:
            if index in records:
                out[start + 1 : stop] = records[index].view(np.uint8)


def _places(plan: Plan) -> Iterator[tuple[Decision, int, int]]:
    """Yield every decision that draws, with the start and the end of its bytes."""
    end = 0
    for decision in plan.decisions:
        if decision.stream is not None:
            start, end = end, end + 1 + decision.op.record.itemsize
            yield decision, start, end


def _fields(decision: Decision, start: int) -> Iterator[DrawnField]:
    layout: Mapping[str, Any] = decision.op.record.fields or {}
    for name in decision.op.record.names or ():
        kind, offset = layout[name][:2]
        yield DrawnField(name, kind.base.name, kind.shape, start + offset)
