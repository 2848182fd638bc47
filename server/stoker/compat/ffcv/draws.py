"""What `np.random` means inside an operation: draws that belong to the rows of the batch.

Row i has a key (`keys[i]`, five uint64) and a count of the draws it made (`counts[i]`, int64);
draw k of a row is draw k of its key (`stoker.rng.draws`). An array whose first side is the batch
takes the values of row i from row i; an array or a number for a single row takes them from that
row. So a row's values depend on nothing but its key, whatever else is in the batch. Nothing global
is read or written. Plain Python here; compiled by `stoker.rng.jit`.
"""

from typing import Any, Final

import numpy as np

from stoker.rng.draws import integers, normal, uniform
from stoker.rng.jit import kernel
from stoker.rng.streams import Key

NO_ROWS: Final = "np.random: the first side of what is drawn is not the number of rows of the batch"


@kernel(twin="stoker.compat.ffcv.draws_compiled:key_at")
def key_at(keys: Any, row: int) -> Key:
    """Return the key of a row."""
    return Key(*(int(word) for word in keys[row]))


@kernel
def _per_row(rows: int, out: Any) -> int:
    """Return how many values of an array each row draws."""
    if rows == 1:
        return int(out.size)
    if out.shape[0] != rows:
        raise ValueError(NO_ROWS)
    return int(out.size // rows)


@kernel
def one_uniform(keys: Any, counts: Any, low: Any, high: Any) -> Any:
    """A float64 in [low, high) of the first row."""
    counts[0] += 1
    return low + uniform(key_at(keys, 0), counts[0] - 1) * (high - low)


@kernel
def one_integer(keys: Any, counts: Any, low: Any, high: Any) -> Any:
    """An int64 in [low, high) of the first row."""
    counts[0] += 1
    return low + integers(key_at(keys, 0), counts[0] - 1, high - low)


@kernel
def one_normal(keys: Any, counts: Any, loc: Any, scale: Any) -> Any:
    """A normal float64 of the first row."""
    counts[0] += 1
    return loc + scale * normal(key_at(keys, 0), counts[0] - 1)


@kernel
def many_uniform(keys: Any, counts: Any, low: Any, high: Any, size: Any) -> Any:
    """float64 in [low, high)."""
    out = np.empty(size, np.float64)
    flat, count = out.reshape(out.size), _per_row(keys.shape[0], out)
    for row in range(keys.shape[0]):
        key = key_at(keys, row)
        for j in range(count):
            flat[row * count + j] = low + uniform(key, counts[row] + j) * (high - low)
        counts[row] += count
    return out


@kernel
def many_integers(keys: Any, counts: Any, low: Any, high: Any, size: Any) -> Any:
    """int64 in [low, high)."""
    out = np.empty(size, np.int64)
    flat, count = out.reshape(out.size), _per_row(keys.shape[0], out)
    for row in range(keys.shape[0]):
        key = key_at(keys, row)
        for j in range(count):
            flat[row * count + j] = low + integers(key, counts[row] + j, high - low)
        counts[row] += count
    return out


@kernel
def many_normals(keys: Any, counts: Any, loc: Any, scale: Any, size: Any) -> Any:
    """Normal float64."""
    out = np.empty(size, np.float64)
    flat, count = out.reshape(out.size), _per_row(keys.shape[0], out)
    for row in range(keys.shape[0]):
        key = key_at(keys, row)
        for j in range(count):
            flat[row * count + j] = loc + scale * normal(key, counts[row] + j)
        counts[row] += count
    return out
