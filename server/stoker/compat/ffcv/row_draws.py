"""The meaning of `np.random` inside an operation: draws that belong to the rows of the batch.

Row i has a key (`keys[i]`, five uint64) and the number of draws it has made (`counts[i]`, int64);
draw k of a row is draw k of its key (`stoker.rng.draws`). In an array whose first side is the
batch, the values of row i are drawn from row i. An array or a number for a single row is drawn from
that row, and a permutation belongs to a single row. So a row's values depend only on its key, not
on the rest of the batch. Nothing global is read or written. Plain Python here; compiled by
`stoker.jit`.

An operation that seeds gets keys of ten words: those that it draws from, which a seed replaces, and
those of the row, which stay.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.gammas import LARGEST, SMALLEST, beta
from stoker.rng.draws import integers, normal, uniform
from stoker.rng.streams import Key, stream_key

UNIFORM: Final = 0
NORMAL: Final = 1
INTEGER: Final = 2
SEEDED: Final = int(stream_key("np.random.seed"))
"""Stream of the rows that an operation has seeded with a number of their own."""
SHARED: Final = int(stream_key("np.random.seed, shared"))
"""Stream of the rows that an operation has seeded with any other number."""
WORDS: Final = 5
"""Words of a key."""
NO_ROWS: Final = "np.random: expected an array whose first side is the number of rows of the batch"
VALUES: Final = "np.random.choice: expected an integer above 0, or values in one dimension"
SIZES: Final = "np.random.choice: expected as many probabilities as values"
CHANCES: Final = "np.random.choice: expected probabilities from 0 whose sum is 1"
TOO_FEW: Final = "np.random.choice: replace=False, but fewer values than the size can be chosen"
SHAPES: Final = "np.random.beta: expected shapes a and b from 1e-6 to 1e6"
RANGE: Final = "np.random.randint: expected low < high"
ROUNDING: Final = 1e-3
"""Largest distance of a sum of probabilities from 1; they may be float16, and are divided by it."""
ONE_CHOICE: Final = (
    "np.random.choice: replace=False with one value for each row; the operation gets one row at a "
    "time here, so the values could be equal: set is_batch_op = True on its class if they must "
    "differ within the batch, otherwise leave out replace=False"
)
ONE_VALUE: Final = (
    "np.random: expected several values to reorder, got one; the operation gets one row at a time "
    "here, so it cannot reorder rows: set is_batch_op = True on its class if it should mix rows"
)


@kernel(twin="stoker.compat.ffcv.row_draws_compiled:key_at")
def key_at(keys: Any, row: int) -> Key:
    """Return the key of a row."""
    return Key(*(int(word) for word in keys[row][:WORDS]))


@kernel
def seed_rows(keys: Any, counts: Any, number: Any) -> None:
    """Begin the draws of each row again, from a key that holds a number and the row's place."""
    for row in range(keys.shape[0]):
        keys[row, 0], keys[row, 1], keys[row, 2] = 0, SEEDED, number
        keys[row, 3], keys[row, 4], counts[row] = row, 0, 0


@kernel
def seed_shared(keys: Any, counts: Any, number: Any) -> None:
    """Begin the draws of each row again, from its own key and a number, for all streams alike."""
    for row in range(keys.shape[0]):
        for word in range(WORDS):
            keys[row, word] = keys[row, WORDS + word]
        keys[row, 1] = np.uint64(SHARED) ^ np.uint64(number)
        counts[row] = 0


@kernel
def drawing(rows: Any, size: Any) -> Any:
    """Return those of a batch op's rows that draw an array: each its own values, or the first."""
    count = rows.shape[0] if np.empty(size, np.bool_).shape[0] == rows.shape[0] else 1
    return rows[:count]


@kernel
def _per_row(rows: int, out: Any) -> int:
    """Return the number of values of an array that each row draws."""
    if rows == 1:
        return int(out.size)
    if out.shape[0] != rows:
        raise ValueError(NO_ROWS)
    return int(out.size // rows)


@kernel(twin="stoker.compat.ffcv.row_draws_compiled:members")
def members(a: Any) -> np.ndarray:
    """Return the values that `a` means in `np.random.choice`: 0 to a - 1, or its elements."""
    return np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)


@kernel
def pool(a: Any) -> Any:
    """Return the values to choose from."""
    values = members(a)
    if values.ndim != 1 or values.size < 1:
        raise ValueError(VALUES)
    return values


@kernel
def shares(p: Any, count: int) -> Any:
    """Return the probabilities of as many values, float64 with the sum 1."""
    chances, total = members(p).astype(np.float64), 0.0
    if chances.size != count:
        raise ValueError(SIZES)
    for i in range(count):
        if not chances[i] >= 0.0:
            raise ValueError(CHANCES)
        total += chances[i]
    if not abs(total - 1.0) <= ROUNDING:
        raise ValueError(CHANCES)
    return chances / total


@kernel
def place_of(point: float, chances: Any) -> int:
    """Return the place that a number in [0, 1) has among parts of these lengths.

    It is the last part that is not empty if the sum, by rounding, is less than the number.
    """
    last = 0
    for i in range(chances.size):
        if chances[i] > 0.0:
            if point < chances[i]:
                return i
            last = i
        point -= chances[i]
    return last


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
    if not low < high:
        raise ValueError(RANGE)
    return low + _fill(keys, counts, INTEGER, high - low, np.empty(size, np.int64))


@kernel
def many_betas(keys: Any, counts: Any, a: Any, b: Any, size: Any) -> Any:
    """Beta float64 in [0, 1]; each takes two draws."""
    _check_shapes(a, b)
    out = np.empty(size, np.float64)
    flat, count = out.reshape(out.size), _per_row(keys.shape[0], out)
    for row in range(keys.shape[0]):
        key = key_at(keys, row)
        for j in range(count):
            flat[row * count + j] = beta(key, counts[row] + 2 * j, a, b)
        counts[row] += 2 * count
    return out


@kernel
def _check_shapes(a: float, b: float) -> None:
    if not SMALLEST <= a <= LARGEST or not SMALLEST <= b <= LARGEST:
        raise ValueError(SHAPES)


@kernel
def many_members(keys: Any, counts: Any, a: Any, _: Any, size: Any) -> Any:
    """Some of the values, all equally likely."""
    values = pool(a)
    return np.take(values, many_integers(keys, counts, 0, values.size, size))


@kernel
def many_weighted(keys: Any, counts: Any, a: Any, p: Any, size: Any) -> Any:
    """Some of the values, with given probabilities."""
    values = pool(a)
    chances = shares(p, values.size)
    points = many_uniform(keys, counts, 0.0, 1.0, size)
    out, flat = np.empty(points.size, values.dtype), points.reshape(points.size)
    for i in range(points.size):
        out[i] = values[place_of(flat[i], chances)]
    return out.reshape(points.shape)


@kernel
def one_uniform(keys: Any, counts: Any, low: Any, high: Any) -> Any:
    """A float64 in [low, high) of the first row."""
    counts[0] += 1
    return low + uniform(key_at(keys, 0), counts[0] - 1) * (high - low)


@kernel
def one_integer(keys: Any, counts: Any, low: Any, high: Any) -> Any:
    """An int64 in [low, high) of the first row."""
    if not low < high:
        raise ValueError(RANGE)
    counts[0] += 1
    return low + integers(key_at(keys, 0), counts[0] - 1, high - low)


@kernel
def one_normal(keys: Any, counts: Any, loc: Any, scale: Any) -> Any:
    """A normal float64 of the first row."""
    counts[0] += 1
    return loc + scale * normal(key_at(keys, 0), counts[0] - 1)


@kernel
def one_beta(keys: Any, counts: Any, a: Any, b: Any) -> Any:
    """A beta float64 of the first row; it takes two draws."""
    _check_shapes(a, b)
    counts[0] += 2
    return beta(key_at(keys, 0), counts[0] - 2, a, b)


@kernel
def one_member(keys: Any, counts: Any, a: Any, _: Any) -> Any:
    """One of the values, for the first row."""
    values = pool(a)
    return values[one_integer(keys, counts, 0, values.size)]


@kernel
def one_weighted(keys: Any, counts: Any, a: Any, p: Any) -> Any:
    """One of the values, with given probabilities, for the first row."""
    values = pool(a)
    return values[place_of(one_uniform(keys, counts, 0.0, 1.0), shares(p, values.size))]


@kernel
def batch_distinct(keys: Any, counts: Any, a: Any, _: Any, size: Any) -> Any:
    """Some of the values, each at most once, all equally likely, drawn by the first row."""
    values, key = pool(a), key_at(keys, 0)
    out, places = np.empty(size, values.dtype), np.arange(values.size)
    if out.size > values.size:
        raise ValueError(TOO_FEW)
    flat = out.reshape(out.size)
    for i in range(out.size):
        other = i + integers(key, counts[0], values.size - i)
        counts[0] += 1
        flat[i] = values[places[other]]
        places[other] = places[i]
    return out


@kernel
def batch_weighted_distinct(keys: Any, counts: Any, a: Any, p: Any, size: Any) -> Any:
    """Draw some of the values, each at most once, in order, by the probabilities left."""
    values = pool(a)
    chances = shares(p, values.size)
    out = np.empty(size, values.dtype)
    flat = out.reshape(out.size)
    for i in range(out.size):
        rest = 0.0
        for j in range(chances.size):
            rest += chances[j]
        place = place_of(rest * one_uniform(keys, counts, 0.0, 1.0), chances)
        if not chances[place] > 0.0:
            raise ValueError(TOO_FEW)
        flat[i], chances[place] = values[place], 0.0
    return out


@kernel
def row_distinct(keys: Any, counts: Any, a: Any, _: Any, size: Any) -> Any:
    """Like `batch_distinct`, for a function that gets one row at a time."""
    out = batch_distinct(keys, counts, a, _, size)
    if out.shape[0] == 1:
        raise ValueError(ONE_CHOICE)
    return out


@kernel
def row_weighted_distinct(keys: Any, counts: Any, a: Any, p: Any, size: Any) -> Any:
    """Like `batch_weighted_distinct`, for a function that gets one row at a time."""
    out = batch_weighted_distinct(keys, counts, a, p, size)
    if out.shape[0] == 1:
        raise ValueError(ONE_CHOICE)
    return out


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
