"""Batches: what a loop receives, and how frameworks take them apart and rebuild them.

`loader` and `last_batch` import it. It knows no daemon, session or slab: it gets arrays.
"""
