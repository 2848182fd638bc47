"""Rows of a stream with buckets: a computer for each bucket, made when it is first needed.

The plan of a bucket has shapes of its own, its machine code is that of all of them. Their scratch
memory is one, as rows are computed one after the other. Belongs to one thread, as `RowComputer`.
"""

import functools
from collections.abc import Callable, Collection, Iterator

import numpy as np

from stoker.dataset import Dataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.buckets.assign import Sizes
from stoker.order.buckets.order import BucketOrder
from stoker.order.buckets.plan import BucketPlan, make_plan
from stoker.pipeline.engine.drawing import row_bytes
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.buckets import DRAWN_AS, Buckets
from stoker.protocol.drawn import params_output
from stoker.protocol.exclude import Excluded
from stoker.protocol.layout import Output
from stoker.protocol.lengths import Request
from stoker.protocol.spec import StreamSpec
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.extents import Shapes
from stoker.server.rows.listener import RowListener
from stoker.server.rows.rows import RowComputer
from stoker.server.rows.scratch import Scratch
from stoker.server.rows.shared import SharedSamples
from stoker.server.work.cuts import RankCut, Share

KEPT, KEPT_MIXED = 256, 8
"""Buckets whose computers are kept; others are made again. With batch ops they hold groups."""


def plan_buckets(
    dataset: Dataset, request: Request, batch_size: int, excluded: Excluded | None = None
) -> BucketPlan:
    """Return the plan of a dataset, from its columns of widths and heights, or of lengths.

    Raises:
        UnknownNameError: the dataset has no such field.
        UsageError: the field has no size or length, the list is of another dataset, or there is no
            plan; see `make_plan`.
    """
    left_out = excluded or Excluded(())
    left_out.check(len(dataset))
    return make_plan(planned_sizes(dataset, request), request, batch_size, left_out.ids)


def planned_sizes(dataset: Dataset, request: Request) -> Iterator[Sizes]:
    """Yield what a plan is made of: widths and heights, or lengths twice; see `make_plan`.

    Raises:
        UnknownNameError: the dataset has no such field.
        UsageError: the field has no size or length.
    """
    if isinstance(request, Buckets):
        yield from dataset.sizes(request.field)
    else:
        yield from ((found, found) for found in dataset.lengths(request.field))


def bucket_outputs(plan: Plan, *, params: bool) -> tuple[Output, ...]:
    """Return the outputs of a bucket's batches."""
    more = params_output(row_bytes(plan)) if params else ()
    return (*plan.delivered, DRAWN_AS, *more)


class BucketComputer:
    """Computes rows of a stream with buckets into slots; see `SlotFiller`.

    Attributes:
        order: the stream's.
        home: half-open range of sample ids whose rows count as `home_rows`.
    """

    def __init__(  # noqa: PLR0913 - the parts of a stream
        self,
        spec: StreamSpec,
        dataset: Dataset,
        order: BucketOrder,
        plan_of: Callable[[Size], Plan],
        engine_of: Callable[[Plan], Engine],
        share: Share,
        *,
        arithmetic: Arithmetic = PLAIN,
        params: bool = False,
        listener: RowListener | None = None,
        verify: bool = False,
        shared: SharedSamples | None = None,
    ) -> None:
        self.order = order
        self.home = range(0)
        self._spec = spec
        self._dataset = dataset
        self._plan_of = plan_of
        self._engine_of = engine_of
        self._share = share
        self._arithmetic = arithmetic
        self._params = params
        self._listener = listener
        self._verify = verify
        self._shared = shared
        self._scratch = Scratch()
        first = order.plan.buckets[0]
        mixes = plan_of(Size(first.height, first.width)).mixes
        self._computer = functools.lru_cache(KEPT_MIXED if mixes else KEPT)(self._make)

    def cut(self, epoch: int, step: int) -> RankCut:
        """Return what this rank gets of a step."""
        return self._computer(self.order.turns.turn(epoch, step).bucket)[0]

    def shapes_of(self, epoch: int, step: int) -> Shapes:
        """Return name of an output -> shape of its rows in a step; see `RowComputer`."""
        return self._computer(self.order.turns.turn(epoch, step).bucket)[1].shapes_of(epoch, step)

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
        """Write the rows [row_lo, row_hi) of a step into a slot; see `SlotFiller`."""
        computer = self._computer(self.order.turns.turn(epoch, step).bucket)[1]
        computer.home = self.home
        return computer.fill(slot, epoch, step, row_lo, row_hi, crashed=crashed)

    def _make(self, number: int) -> tuple[RankCut, RowComputer]:
        bucket = self.order.plan.buckets[number]
        plan = self._plan_of(Size(bucket.height, bucket.width))
        cut = self._share.cut(bucket.positions, bucket_outputs(plan, params=self._params))
        computer = RowComputer(
            self._spec, self._dataset, self._engine_of(plan), cut.layout, cut.first_row,
            arithmetic=self._arithmetic, params=self._params and bool(row_bytes(plan)),
            order=self.order, scratch=self._scratch, listener=self._listener, verify=self._verify,
            shared=self._shared,
        )  # fmt: skip
        return cut, computer
