"""The shapes of a batch's padded outputs: a function of (StreamSpec, epoch, step) alone.

A padded output is as long as the longest row of the global batch, rounded up; or always as long as
a row can be, if its form says so. The rows that count are those that the order asks for; their
sizes follow from side columns and draws, so every worker of every rank computes the same shapes,
and no pixel is read for it. The shapes of the last steps are kept: a worker fills several chunks of
one step. Runs in workers, and in the reference.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import numpy as np

from stoker.dataset import Dataset
from stoker.jit.arithmetic import Arithmetic
from stoker.order.stream import RowColumns, StreamOrder
from stoker.pipeline.compiled.size_program import SizeFinder
from stoker.pipeline.plain.plain_sizes import PlainSizes
from stoker.pipeline.planning.padded_sizes import Sizes, sizing_of
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row

KEPT: Final = 16
Shapes = Mapping[str, tuple[int, ...]]


class Extents:
    """Computes the shapes of padded outputs, step by step."""

    def __init__(
        self,
        spec: StreamSpec,
        dataset: Dataset,
        plan: Plan,
        order: StreamOrder,
        *,
        arithmetic: Arithmetic,
    ) -> None:
        """Prepare.

        Raises:
            UsageError: sizes are not known before samples are made.
        """
        self._seed, self._views = spec.seed, spec.views
        self._dataset = dataset
        self._order = order
        self._sizing = sizing_of(plan)
        self._finder: Sizes | None = None
        if self._sizing.outputs:
            compiled = arithmetic.is_compiled
            finder: type[SizeFinder | PlainSizes] = SizeFinder if compiled else PlainSizes
            self._finder = finder(plan, spec.freeze)
        self._measured = [plan.fields[column] for column in self._sizing.measured]
        self._read = [
            (plan.fields[column], plan.inputs[column].dtype) for column in self._sizing.read
        ]
        self._told = [output for output in plan.outputs if output.is_told]
        self._outputs = {output.name: output for output in self._told}
        for name in self._measured:
            dataset.sizes_of(name, np.zeros(0, np.int64))
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
        if self._finder is None:
            return shapes
        rows = self._order.rows(epoch, step, 0, self._order.positions(epoch, step) * self._views)
        rows = RowColumns(*(column[rows.ids >= 0] for column in rows))
        sizes = np.ones((len(rows.ids), len(self._measured), 2), np.int64)
        for place, name in enumerate(self._measured):
            sizes[:, place] = self._dataset.sizes_of(name, rows.ids)
        numbers = [self._numbers(name, dtype, rows.ids) for name, dtype in self._read]
        found = self._finder.find(
            Row(self._seed, 0, epoch, step=step, progress=self._order.progress(epoch, step)),
            rows.words(self._seed),
            sizes,
            numbers,
        )
        for one, longest in zip(self._sizing.outputs, found.max(0).tolist(), strict=True):
            shapes[one.form.output] = self._shape(one.form.output, one.form.multiple, longest)
        return shapes

    def _numbers(self, name: str, dtype: str, ids: np.ndarray) -> np.ndarray:
        column = np.zeros(len(ids), dtype)
        if not self._dataset.gather(name, ids, column):
            column[:] = [self._dataset.read(name, number) for number in ids.tolist()]
        return column

    def _shape(self, name: str, multiple: int, longest: list[int]) -> tuple[int, ...]:
        shape = list(self._outputs[name].shape)
        for place, side in zip(self._outputs[name].varies, longest, strict=False):
            shape[place] = max(-(-side // multiple), 1) * multiple
        return tuple(shape)
