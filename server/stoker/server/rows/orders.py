"""The order of a stream, and the plan of its buckets, from its open datasets.

Builders, workers, replayers and the reference compute both alike.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from stoker.dataset import Dataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.buckets.assign import Sizes
from stoker.order.buckets.bucket_plan import BucketPlan, make_plan
from stoker.order.compose import order_of
from stoker.order.mix import Part
from stoker.order.selected import Selected
from stoker.order.stream_order import StreamOrder
from stoker.protocol.length_buckets import Request
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import StreamSpec
from stoker.server.work.work_records import BuiltSource


def stream_order(
    spec: StreamSpec,
    datasets: Sequence[Dataset],
    selections: Sequence[Selected],
    *,
    parts: Sequence[Part] = (),
    buckets: Request | None = None,
    arithmetic: Arithmetic = PLAIN,
) -> StreamOrder:
    """Return the order of a stream.

    Args:
        spec: the stream.
        datasets: that it reads.
        selections: what it takes of each.
        parts: the datasets, if it is a mixture.
        buckets: how sizes are chosen, if it has buckets.
        arithmetic: compiled or plain.

    Raises:
        UsageError: the spec was made with something else; see `order_of`.
    """
    plan = None
    if buckets is not None:
        plan = plan_buckets(datasets, buckets, spec.batch_size, selections)
    return order_of(spec, selections, parts=parts, plan=plan, arithmetic=arithmetic)


def plan_buckets(
    datasets: Sequence[Dataset],
    request: Request,
    batch_size: int,
    selections: Sequence[Selected] | None = None,
) -> BucketPlan:
    """Return the plan of a stream, from the columns of widths and heights, or of lengths.

    Args:
        datasets: of the stream; of a mixture, each follows the one before.
        request: how sizes are chosen.
        batch_size: positions in a global batch.
        selections: what is taken of each dataset; None: all.

    Raises:
        UnknownNameError: a dataset has no such field.
        UsageError: the field has no size or length, a list is of another dataset, or there is no
            plan; see `make_plan`.
    """
    chosen = selections or [Selected(len(dataset)) for dataset in datasets]
    blocks, left_out, first = [], [np.empty(0, np.int64)], 0
    for dataset, selection in zip(datasets, chosen, strict=True):
        selection.excluded.check(len(dataset))
        blocks.append(planned_sizes(dataset, request))
        left_out.append(selection.excluded.ids + first)
        first += len(dataset)
    every = (block for of_dataset in blocks for block in of_dataset)
    return make_plan(every, request, batch_size, np.concatenate(left_out))


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


def order_parts(parts: Sequence[BuiltSource]) -> list[Part]:
    """Return the parts of a mixture as its order knows them."""
    return [Part(part.fingerprint, part.rows, part.pipeline_id, part.share) for part in parts]
