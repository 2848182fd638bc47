"""The account of an epoch with buckets, and the ids of the samples that it carries or drops.

The numbers are those of `stoker.protocol.accounts`. Ids are computed on demand; nothing is stored.
"""

import numpy as np

from stoker.order.buckets.bucket_plan import BucketPlan
from stoker.order.buckets.turns import BucketTurns
from stoker.order.deck import Ids
from stoker.order.stream_order import StreamOrder
from stoker.protocol.accounts import EpochAccount, epoch_account


def account(order: StreamOrder, epoch: int) -> EpochAccount:
    """Return the account of an epoch of an order with buckets."""
    plan, turns = _of(order)
    merged, excluded = len(plan.merged()), plan.excluded
    return epoch_account(turns.arithmetic, epoch, merged=merged, excluded=excluded)


def carried_ids(order: StreamOrder, epoch: int) -> Ids:
    """Return the ids of the samples that an epoch leaves for later ones, with repetition.

    A bucket that needs several epochs for a batch carries a sample once per epoch.
    """
    return _collect(order, epoch, "carry")


def dropped_ids(order: StreamOrder, epoch: int) -> Ids:
    """Return the ids of the rows of an epoch that are never delivered, ascending."""
    return np.sort(_collect(order, epoch, "drop"))


def _of(order: StreamOrder) -> tuple[BucketPlan, BucketTurns]:
    assert order.plan is not None
    assert isinstance(order.cut, BucketTurns)
    return order.plan, order.cut


def _collect(order: StreamOrder, epoch: int, tail: str) -> Ids:
    found = [np.empty(0, np.int64)]
    if order.cut.tail == tail:
        found += [_left_over(order, bucket, epoch) for bucket in range(len(order.rows_of))]
    return np.concatenate(found)


def _left_over(order: StreamOrder, bucket: int, epoch: int) -> Ids:
    """Return the ids of a bucket that fill no batch by the end of an epoch, in order."""
    rows, cut, size = order.rows_of[bucket], order.cut, order.cut.positions(bucket)
    batches = cut.batches_before(bucket, epoch + 1)
    if cut.tail == "carry":
        at, start = divmod(batches * size, rows.rows)
        return rows.lookup(at, start, (epoch + 1 - at) * rows.rows).ids
    start = (batches - cut.batches_before(bucket, epoch)) * size
    return rows.lookup(epoch, start, max(rows.rows, start)).ids
