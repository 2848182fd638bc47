"""Image statistics as numbers of a graph: `value.mean()`, `value.max()`, `value.min()`.

The same on every machine. For integers the sum and the count are exact; the mean is
their quotient in float64, each of the three operations rounded once. For float32 the sum is
float64, in the order of `stoker.ops.kernels.lane_sums`; maximum and minimum are found by keys, as
`kernels.float_levels` orders them. If any element is NaN, all three are NaN. All channels count
equally.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State
from stoker.ops.kernels.float_levels import NO_NUMBER, float_of, key_of, plain_floats, plain_keys
from stoker.ops.kernels.lane_sums import EMPTY, add_lanes, plain_total, total
from stoker.protocol.errors import BuildError

STATISTICS: Final = ("mean", "max", "min")
DTYPES: Final = ("uint8", "uint16", "int32", FLOAT)
NAN: Final = np.float64(np.nan)


def check_statistic(op: str, state: State) -> None:
    """Refuse values that have no statistics.

    Raises:
        BuildError: the value is not an array of small integers or of float32.
    """
    if 0 in state.least and not state.items:
        raise BuildError(f"{op} of {state}: it may be empty, and then has no {op}")
    if state.dtype not in DTYPES or not state.shape or state.items:
        raise BuildError(
            f"expected an image, mask or array of {', '.join(DTYPES)}, got {state}: ask for "
            "it before an op converts the levels"
        )


def statistic(op: str, value: np.ndarray) -> int | float:
    """Return a statistic of a value; the plain form of the kernels below."""
    if value.dtype == FLOAT:
        return _statistic_of_floats(op, value)
    if op == "mean":
        return float(int(value.sum(dtype=np.int64))) / float(value.size)
    return int(value.max() if op == "max" else value.min())


def _statistic_of_floats(op: str, value: np.ndarray) -> float:
    if np.isnan(value).any():
        return float("nan")
    if op == "mean":
        with np.errstate(all="ignore"):
            mean = float(plain_total(value) / np.float64(value.size))
        return mean if mean == mean else float("nan")  # noqa: PLR0124 (infinities of both signs)
    keys = plain_keys(np.ascontiguousarray(value))
    return float(plain_floats(keys.max() if op == "max" else keys.min()))


@kernel
def mean_of_floats(value: Any) -> Any:
    """Return the mean of all elements, float64."""
    flat = value.reshape(value.size)
    sums = add_lanes(flat, np.uint64(0), np.uint64(flat.size), EMPTY)
    mean = total(sums) / np.float64(flat.size)
    return mean if mean == mean else NAN  # noqa: PLR0124


@kernel
def ends_of_floats(value: Any) -> Any:
    """Return the minimum and the maximum element, float64."""
    flat = value.reshape(value.size)
    low = high = key_of(flat[0])
    for i in range(np.uint64(flat.size)):
        key = key_of(flat[i])
        low, high = min(low, key), max(high, key)
    low = high if high == NO_NUMBER else low
    return np.float64(float_of(low)), np.float64(float_of(high))


@kernel
def mean_of(value: Any) -> Any:
    """Return the mean of all elements, float64."""
    flat = value.reshape(value.size)
    total = np.int64(0)
    for i in range(flat.size):
        total += np.int64(flat[i])
    return np.float64(total) / np.float64(flat.size)


@kernel
def max_of(value: Any) -> Any:
    """Return the maximum element, int64."""
    flat = value.reshape(value.size)
    found = flat[0]
    for i in range(flat.size):
        found = max(found, flat[i])
    return np.int64(found)


@kernel
def min_of(value: Any) -> Any:
    """Return the minimum element, int64."""
    flat = value.reshape(value.size)
    found = flat[0]
    for i in range(flat.size):
        found = min(found, flat[i])
    return np.int64(found)
