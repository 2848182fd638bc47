"""The account of an epoch of a plan, and the ids of the samples that it carries or drops.

The numbers are those of `stoker.protocol.accounts`. Ids are computed on demand; nothing is stored.
"""

import numpy as np

from stoker.order.buckets.order import BucketOrder
from stoker.order.stream import Ids
from stoker.protocol.accounts import EpochAccount, epoch_account


def account(order: BucketOrder, epoch: int) -> EpochAccount:
    """Return the account of an epoch."""
    plan = order.plan
    merged, excluded = len(plan.merged()), plan.excluded
    return epoch_account(order.turns.arithmetic, epoch, merged=merged, excluded=excluded)


def carried_ids(order: BucketOrder, epoch: int) -> Ids:
    """Return the ids of the samples that an epoch leaves for later ones, with repetition.

    A bucket that needs several epochs for a batch carries a sample once per epoch.
    """
    return _collect(order, epoch, "carry")


def dropped_ids(order: BucketOrder, epoch: int) -> Ids:
    """Return the ids of the samples of an epoch that are never delivered, ascending."""
    return np.sort(_collect(order, epoch, "drop"))


def _collect(order: BucketOrder, epoch: int, tail: str) -> Ids:
    found = [np.empty(0, np.int64)]
    if order.turns.tail == tail:
        found += [order.left_over(bucket, epoch) for bucket in range(len(order.plan.buckets))]
    return np.concatenate(found)
