"""The meaning of `np.random` inside an operation: draws that belong to the rows of the batch.

Row i has a key (`keys[i]`, five uint64) and the number of draws it has made (`counts[i]`, int64);
draw k of a row is draw k of its key (`stoker.rng.draws`). In an array whose first side is the
batch, the values of row i are drawn from row i. An array or a number for a single row is drawn from
that row, and a permutation belongs to a single row. So a row's values depend only on its key, not
on the rest of the batch. Nothing global is read or written. Plain Python here; compiled by
`stoker.jit`.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.rng.draws import integers, normal, uniform
from stoker.rng.streams import Key, stream_key

UNIFORM: Final = 0
NORMAL: Final = 1
INTEGER: Final = 2
SEEDED: Final = int(stream_key("np.random.seed"))
"""Stream of the rows that an operation has seeded."""
NO_ROWS: Final = "np.random: expected an array whose first side is the number of rows of the batch"
SIZES: Final = "np.random.choice: expected as many probabilities as values"
ONE_VALUE: Final = (
    "np.random: expected several values to reorder, got one; the operation gets one row at a time "
    "here, so it cannot reorder rows: set is_batch_op = True on its class if it should mix rows"
)


@kernel(twin="stoker.compat.ffcv.draws_compiled:key_at")
def key_at(keys: Any, row: int) -> Key:
    """Return the key of a row."""
    return Key(*(int(word) for word in keys[row]))


@kernel
def seed_rows(keys: Any, counts: Any, number: Any) -> None:
    """Begin the draws of each row again, from a key that holds a number and the row's place."""
    for row in range(keys.shape[0]):
        keys[row, 0], keys[row, 1], keys[row, 2] = 0, SEEDED, number
        keys[row, 3], keys[row, 4], counts[row] = row, 0, 0


@kernel
def _per_row(rows: int, out: Any) -> int:
    """Return the number of values of an array that each row draws."""
    if rows == 1:
        return int(out.size)
    if out.shape[0] != rows:
        raise ValueError(NO_ROWS)
    return int(out.size // rows)


@kernel(twin="stoker.compat.ffcv.draws_compiled:members")
def members(a: Any) -> np.ndarray:
    """Return the values that `a` means in `np.random.choice`: 0 to a - 1, or its elements."""
    return np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)


@kernel
def _fill(keys: Any, counts: Any, kind: int, top: Any, out: Any) -> Any:
    """Fill an array with draws of a kind: the values of row i from row i."""
    flat, count = out.reshape(out.size), _per_row(keys.shape[0], out)
    for row in range(keys.shape[0]):
        key = key_at(keys, row)
        for j in range(count):
            k, at = counts[row] + j, row * count + j
            if kind == UNIFORM:
                flat[at] = uniform(key, k)
            elif kind == NORMAL:
                flat[at] = normal(key, k)
            else:
                flat[at] = integers(key, k, top)
        counts[row] += count
    return out


@kernel
def many_uniform(keys: Any, counts: Any, low: Any, high: Any, size: Any) -> Any:
    """float64 in [low, high)."""
    out = _fill(keys, counts, UNIFORM, 1, np.empty(size, np.float64))
    return low + out * (high - low)


@kernel
def many_normals(keys: Any, counts: Any, loc: Any, scale: Any, size: Any) -> Any:
    """Normal float64."""
    return loc + scale * _fill(keys, counts, NORMAL, 1, np.empty(size, np.float64))


@kernel
def many_integers(keys: Any, counts: Any, low: Any, high: Any, size: Any) -> Any:
    """int64 in [low, high)."""
    return low + _fill(keys, counts, INTEGER, high - low, np.empty(size, np.int64))


@kernel
def many_members(keys: Any, counts: Any, a: Any, _: Any, size: Any) -> Any:
    """Some of the values, all equally likely."""
    values = members(a)
    return np.take(values, many_integers(keys, counts, 0, values.size, size))


@kernel
def many_weighted(keys: Any, counts: Any, a: Any, p: Any, size: Any) -> Any:
    """Some of the values, with given probabilities."""
    values, chances = members(a), members(p)
    points = many_uniform(keys, counts, 0.0, 1.0, size)
    out, flat = np.empty(points.size, values.dtype), points.reshape(points.size)
    for i in range(points.size):
        out[i] = weighted(flat[i], values, chances)
    return out.reshape(points.shape)


@kernel
def weighted(point: float, values: Any, p: Any) -> Any:
    """Return the value for a number in [0, 1), by probabilities."""
    if p.size != values.size:
        raise ValueError(SIZES)
    rest, last = point * p.sum(), 0
    for i in range(p.size):
        if p[i] > 0.0:
            if rest < p[i]:
                return values[i]
            last = i
        rest -= p[i]
    return values[last]


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
def one_member(keys: Any, counts: Any, a: Any, _: Any) -> Any:
    """One of the values, for the first row."""
    values = members(a)
    return values[one_integer(keys, counts, 0, values.size)]


@kernel
def one_weighted(keys: Any, counts: Any, a: Any, p: Any) -> Any:
    """One of the values, with given probabilities, for the first row."""
    return weighted(one_uniform(keys, counts, 0.0, 1.0), members(a), members(p))


@kernel
def order(keys: Any, counts: Any, count: int) -> Any:
    """Return 0 to count - 1 in an order drawn by the first row (Fisher and Yates)."""
    found, key = np.arange(count), key_at(keys, 0)
    for last in range(count - 1, 0, -1):
        other = integers(key, counts[0], last + 1)
        counts[0] += 1
        kept = found[last]
        found[last] = found[other]
        found[other] = kept
    return found


@kernel
def batch_permutation(keys: Any, counts: Any, x: Any) -> Any:
    """Return values in another order, along the first axis."""
    values = members(x)
    return values[order(keys, counts, len(values))]


@kernel
def batch_shuffle(keys: Any, counts: Any, x: Any) -> None:
    """Put values in another order, along the first axis."""
    x[:] = x[order(keys, counts, len(x))]


@kernel
def row_permutation(keys: Any, counts: Any, x: Any) -> Any:
    """Like `batch_permutation`, for a function that gets one row at a time."""
    values = members(x)
    if len(values) == 1:
        raise ValueError(ONE_VALUE)
    return batch_permutation(keys, counts, values)


@kernel
def row_shuffle(keys: Any, counts: Any, x: Any) -> None:
    """Like `batch_shuffle`, for a function that gets one row at a time."""
    if len(x) == 1:
        raise ValueError(ONE_VALUE)
    batch_shuffle(keys, counts, x)
