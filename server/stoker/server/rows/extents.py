"""The shapes of a batch's padded outputs: a function of (StreamSpec, epoch, step) alone.

A padded output is as long as the longest row of the global batch, rounded up; or always as long as
a row can be, if its form says so. The rows that count are those that the order asks for; their
sizes follow from side columns and draws, so every worker of every rank computes the same shapes,
and no pixel is read for it. The shapes of the last steps are kept: a worker fills several chunks of
one step. Runs in workers, and in the reference.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from stoker.jit.arithmetic import Arithmetic
from stoker.order.stream_order import RowColumns, StreamOrder
from stoker.pipeline.compiled.size_program import SizeFinder
from stoker.pipeline.plain.plain_sizes import PlainSizes
from stoker.pipeline.planning.padded_sizes import Sizes, sizing_of
from stoker.pipeline.planning.scaled_fields import stored_field
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.joined_pipelines import joined_outputs, own_freeze
from stoker.server.rows.sample_rows import RowSource

KEPT: Final = 16
Shapes = Mapping[str, tuple[int, ...]]


class Extents:
    """Computes the shapes of padded outputs, step by step: the greatest of all datasets."""

    def __init__(
        self,
        spec: StreamSpec,
        sources: Sequence[RowSource],
        order: StreamOrder,
        *,
        arithmetic: Arithmetic,
    ) -> None:
        """Prepare.

        Raises:
            UsageError: sizes are not known before samples are made.
        """
        self._seed, self._views = spec.seed, spec.views
        self._order = order
        self._firsts = order.firsts
        self._parts = [_DatasetSizes(spec, source, arithmetic) for source in sources]
        outputs = joined_outputs([source.engine.plan.outputs for source in sources])
        self._told = [output for output in outputs if output.is_told]
        self._kept: OrderedDict[tuple[int, int], Shapes] = OrderedDict()

    def of(self, epoch: int, step: int) -> Shapes:
        """Return name of a padded output -> shape of its rows in a step."""
        place = (epoch, step)
        if place not in self._kept:
            self._kept[place] = self._compute(epoch, step)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return self._kept[place]

    def _compute(self, epoch: int, step: int) -> Shapes:
        shapes = {output.name: output.shape for output in self._told}
        if not any(part.finder for part in self._parts):
            return shapes
        rows = self._order.rows(epoch, step, 0, self._order.positions(epoch, step) * self._views)
        moment = Row(self._seed, 0, epoch, step=step, progress=self._order.progress(epoch, step))
        found = []
        for part, first, stop in zip(self._parts, self._firsts, self._firsts[1:], strict=False):
            own = (rows.ids >= first) & (rows.ids < stop)
            if own.any():
                found.append(part.shapes(moment, RowColumns(*(c[own] for c in rows)), first))
        for name in shapes:
            shapes[name] = tuple(map(max, zip(*(part[name] for part in found), strict=True)))
        return shapes


class _DatasetSizes:
    """The needs of the rows of one dataset.

    Attributes:
        finder: computes sizes before samples are made; None if none are needed.
    """

    def __init__(self, spec: StreamSpec, source: RowSource, arithmetic: Arithmetic) -> None:
        self._seed = spec.seed
        self._dataset = source.dataset
        plan = source.engine.plan
        self._sizing = sizing_of(plan)
        self.finder: Sizes | None = None
        if self._sizing.outputs:
            compiled = arithmetic.is_compiled
            finder: type[SizeFinder | PlainSizes] = SizeFinder if compiled else PlainSizes
            self.finder = finder(plan, own_freeze(spec.freeze, plan))
        self._measured = [stored_field(plan.fields[column]) for column in self._sizing.measured]
        self._read = [
            (plan.fields[column], plan.inputs[column].dtype) for column in self._sizing.read
        ]
        self._told = {output.name: output for output in plan.outputs if output.is_told}
        for name in self._measured:
            self._dataset.sizes_of(name, np.zeros(0, np.int64))

    def shapes(self, moment: Row, rows: RowColumns, first_id: int) -> dict[str, tuple[int, ...]]:
        """Return name of a padded output -> the shape that these rows need."""
        shapes = {name: output.shape for name, output in self._told.items()}
        if self.finder is None:
            return shapes
        numbers = rows.ids - first_id
        sizes = np.ones((len(numbers), len(self._measured), 2), np.int64)
        for place, name in enumerate(self._measured):
            sizes[:, place] = self._dataset.sizes_of(name, numbers)
        read = [self._numbers(name, dtype, numbers) for name, dtype in self._read]
        found = self.finder.find(moment, rows.words(self._seed), sizes, read)
        for one, longest in zip(self._sizing.outputs, found.max(0).tolist(), strict=True):
            name = one.form.output
            shapes[name] = self._shape(name, one.form.multiple, longest)
        return shapes

    def _numbers(self, name: str, dtype: str, ids: np.ndarray) -> np.ndarray:
        column = np.zeros(len(ids), dtype)
        if not self._dataset.gather(name, ids, column):
            column[:] = [self._dataset.read(name, number) for number in ids.tolist()]
        return column

    def _shape(self, name: str, multiple: int, longest: list[int]) -> tuple[int, ...]:
        shape = list(self._told[name].shape)
        for place, side in zip(self._told[name].varies, longest, strict=False):
            shape[place] = max(-(-side // multiple), 1) * multiple
        return tuple(shape)
