"""Compiled twin of `stoker.compat.ffcv.draws.key_at`. Imports numba."""

from stoker.rng.jit import handwritten


@handwritten
def key_at(keys, row):  # type: ignore[no-untyped-def]
    """The key of a row: a tuple of five uint64."""
    return keys[row, 0], keys[row, 1], keys[row, 2], keys[row, 3], keys[row, 4]
