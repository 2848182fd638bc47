"""Buckets: the size of each image or sequence, the plan of a dataset, which bucket comes when.

Everything follows from (dataset, request, batch size). The daemon, workers and reports import it;
of `order` it imports what one epoch needs. It gets sizes as arrays and must not read a dataset.
Specified in docs/contracts/order.md.
"""

from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.buckets.sizes import bucket_size

__all__ = ["bucket_size", "make_plan"]
