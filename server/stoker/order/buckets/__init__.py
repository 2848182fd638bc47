"""Aspect-ratio buckets: the size of each image, the plan of a dataset, the order of the batches.

Everything follows from (dataset, request, batch size). The daemon, workers and reports import it;
of `order` it imports what one epoch needs. It gets sizes as arrays and must not read a dataset.
Specified in docs/contracts/order.md.
"""

from stoker.order.buckets.account import carried_ids
from stoker.order.buckets.order import BucketOrder
from stoker.order.buckets.plan import make_plan
from stoker.order.buckets.sizes import bucket_size

__all__ = ["BucketOrder", "bucket_size", "carried_ids", "make_plan"]
