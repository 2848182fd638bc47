"""Boxes that rows read, in plain Python: the oracle of `stoker.pipeline.compiled.window_program`.

The reference and replay use it where a worker uses machine code, since the box that a row reads of
an image decides whether the image is bad.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.engine.sample_faults import Sides
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.plain_calls import call_plain
from stoker.pipeline.planning.decision import Decision, made_for
from stoker.pipeline.planning.decoded_boxes import Box, field_values, wanted_windows
from stoker.pipeline.planning.plan import Plan
from stoker.rng.row import Row


class PlainWindows:
    """Computes the boxes that rows of a plan read; see `compiled.window_program.Windows`.

    Attributes:
        fields: the fields whose boxes it computes, in the order of `boxes`.
        sized: the fields whose sizes it needs.
    """

    def __init__(self, plan: Plan, wanted: Collection[str], freeze: Freeze | None = None) -> None:
        """Prepare; arguments as for `Windows`."""
        self._found, self.sized = wanted_windows(plan, wanted)
        self._values = field_values(plan)
        self.fields = tuple(self._found)
        self._engine = Interpreter(plan, freeze)

    def boxes(self, row: Row, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Box]:
        """Return the box of each field that a row reads; `sizes` are (height, width) by field."""
        self._engine.drawn = []
        return {
            name: self._around(decisions, row, sizes[name], sizes)
            for name, decisions in self._found.items()
        }

    def _around(
        self,
        decisions: Sequence[Decision],
        row: Row,
        size: Sides,
        sizes: Mapping[str, tuple[int, int]],
    ) -> Box:
        """Return the box around those that the decisions give."""
        read = [self._read(decision, row, size, sizes) for decision in decisions]
        top, left = min(box[0] for box in read), min(box[1] for box in read)
        bottom, right = max(box[0] + box[2] for box in read), max(box[1] + box[3] for box in read)
        return top, left, bottom - top, right - left

    def _read(
        self, decision: Decision, row: Row, size: Sides, sizes: Mapping[str, tuple[int, int]]
    ) -> Box:
        """Draw a decision, or carry it over, and return the box that its op reads."""
        if decision.source is None:
            self._engine.draw(decision, row, size)
        else:
            of = sizes[self._values[made_for(decision.source)]]
            self._engine.draw(decision.source, row, of)
            self._engine.rescale(decision, row, (*of, *size))
        reads = type(decision.op).reads
        assert reads is not None
        found = call_plain(decision, "reads", reads, row, *self._engine.parts(decision), *size)
        top, left, height, width = map(int, found)
        return top, left, height, width
