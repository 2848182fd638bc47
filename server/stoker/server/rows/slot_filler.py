"""Rows of any stream into slots: a computer for each bucket, made when it is first needed.

Without buckets there is one, made at once. The plans of a bucket have shapes of their own, their
machine code is that of all of them. Scratch memory is one, as rows are computed one after the
other. Belongs to one thread.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from stoker.dataset import Dataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.stream_order import StreamOrder
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.planning.bucket_graph import Size
from stoker.protocol.messages import StageSum
from stoker.protocol.spec import StreamSpec
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.extents import Shapes
from stoker.server.rows.joined_pipelines import joined_outputs, joined_records
from stoker.server.rows.listener import RowListener
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.row_times import RowTimes
from stoker.server.rows.sample_rows import RowSource
from stoker.server.rows.scratch import Scratch
from stoker.server.rows.shared import SharedSamples
from stoker.server.work.cuts import RankCut, Share, batch_outputs
from stoker.server.work.work_records import Timed

KEPT, KEPT_MIXED = 256, 8
"""Buckets whose computers are kept; others are made again. With batch ops they hold groups."""


class StreamSource(NamedTuple):
    """A dataset of a stream, and what returns the engine of its pipeline.

    Attributes:
        dataset: what is read.
        engine_of: called with the size of a bucket, or with None where there are no buckets.
        times: times its rows; None: nothing does.
    """

    dataset: Dataset
    engine_of: Callable[[Size | None], Engine]
    times: RowTimes | None = None


class SlotFiller:
    """Computes the rows of a stream that a rank gets.

    Attributes:
        order: the stream's.
        home: half-open range of sample ids whose rows count as `home_rows`.
    """

    def __init__(  # noqa: PLR0913 - the parts of a stream
        self,
        spec: StreamSpec,
        sources: Sequence[StreamSource],
        order: StreamOrder,
        share: Share,
        *,
        arithmetic: Arithmetic = PLAIN,
        params: bool = False,
        listener: RowListener | None = None,
        verify: bool = False,
        shared: SharedSamples | None = None,
    ) -> None:
        """Prepare; arguments as for `RowComputer`.

        Args:
            spec: the stream.
            sources: its datasets.
            order: the stream's.
            share: the rank's part of each batch.
            arithmetic: how all but the engines compute.
            params: whether batches have draw records.
            listener: notes each row and sample before it is touched.
            verify: whether `fill` computes the digests of the rows.
            shared: what streams of a fork share.
        """
        self.order = order
        self.home = range(0)
        self._spec = spec
        self._sources = tuple(sources)
        self._share = share
        self._arithmetic = arithmetic
        self._params = params
        self._listener = listener
        self._verify = verify
        self._shared = shared
        self._scratch = Scratch()
        self._mixes = False
        first = self._make(0)
        kept = KEPT_MIXED if self._mixes else KEPT
        self._made = functools.lru_cache(kept)(lambda n: self._make(n) if n else first)

    def cut(self, epoch: int, step: int) -> RankCut:
        """Return what this rank gets of a step."""
        return self._at(epoch, step)[0]

    def shapes_of(self, epoch: int, step: int) -> Shapes:
        """Return name of an output -> shape of its rows in a step, of those that `is_told`."""
        return self._at(epoch, step)[1].shapes_of(epoch, step)

    def fill(
        self,
        slot: np.ndarray,
        epoch: int,
        step: int,
        row_lo: int,
        row_hi: int,
        *,
        crashed: Collection[int] = (),
    ) -> RowCounts:
        """Write the rows [row_lo, row_hi) of a step into a slot; see `RowComputer.fill`."""
        computer = self._at(epoch, step)[1]
        computer.home = self.home
        return computer.fill(slot, epoch, step, row_lo, row_hi, crashed=crashed)

    def timed(self) -> tuple[Timed, ...]:
        """Return the times of the rows that were timed since the last call, for each dataset."""
        found = []
        for number, source in enumerate(self._sources):
            if source.times is not None and source.times.rows:
                rows, stages = source.times.take()
                found.append(Timed(number, rows, tuple(StageSum(*one) for one in stages)))
        return tuple(found)

    def _at(self, epoch: int, step: int) -> tuple[RankCut, RowComputer]:
        return self._made(self.order.bucket(epoch, step) or 0)

    def _make(self, number: int) -> tuple[RankCut, RowComputer]:
        size = None
        if self.order.plan is not None:
            bucket = self.order.plan.buckets[number]
            size = Size(bucket.height, bucket.width)
        sources = [
            RowSource(source.dataset, source.engine_of(size), source.times)
            for source in self._sources
        ]
        plans = [source.engine.plan for source in sources]
        self._mixes = bool(plans[0].mixes)
        delivered = joined_outputs([plan.delivered for plan in plans])
        params_bytes = joined_records(plans)[2] if self._params else 0
        outputs = batch_outputs(self._spec, delivered, params_bytes)
        cut = self._share.cut(self.order.cut.positions(number), outputs)
        computer = RowComputer(
            self._spec, sources, cut.layout, cut.first_row,
            arithmetic=self._arithmetic, params=params_bytes > 0, order=self.order,
            scratch=self._scratch, listener=self._listener, verify=self._verify,
            shared=self._shared,
        )  # fmt: skip
        return cut, computer
