"""Aspect-ratio buckets: the size of each image, the plan of a dataset, the order of the batches.

Specified in docs/contracts/order.md. Everything follows from (dataset, request, batch size).
"""
