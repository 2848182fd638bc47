"""Statistics of an image or array as numbers of a graph: `value.mean()`, `value.any()`, ...

The same on every machine. The sum of integers and bools is an int64 that wraps. Their mean is the
quotient of the exact sum and the count in float64, each of the three operations rounded once. The
sum of floats is float64, in the order of `stoker.ops.kernels.lane_sums`, and so is the sum of which
the mean of int64 is made, as its exact sum may not fit. Maximum and minimum of floats are found by
keys, as `kernels.float_levels` orders them. If any element is NaN, all four are NaN. `any` and
`all` test whether elements are not 0; NaN is not 0. All channels count equally.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State
from stoker.ops.kernels.float_levels import NO_NUMBER as NO_FLOAT
from stoker.ops.kernels.float_levels import float_of, key_of, plain_floats, plain_keys
from stoker.ops.kernels.lane_sums import EMPTY, add_lanes, plain_total, total
from stoker.protocol.errors import BuildError

INTEGERS: Final = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")
FLOATS: Final = (FLOAT, "float64")
DTYPES: Final = ("bool", *INTEGERS, *FLOATS)
_OF_EMPTY: Final = ("sum", "any", "all")
"""Statistics that an empty array has."""
NAN: Final = np.float64(np.nan)
SIGN: Final = np.int64(63)
BELOW: Final = np.int64(2**63 - 1)
LEAST: Final = np.int64(-(2**63))
NO_NUMBER: Final = np.int64(0x7FF8 << 48)
"""Key of the NaN among float64."""


def check_statistic(op: str, state: State) -> str:
    """Return the type of a statistic of a value: bool, int64 or float64.

    Raises:
        BuildError: the value is not an array of numbers that has it.
    """
    if not state.shape or state.items or state.kind == "bytes":
        raise BuildError(f"expected an image, mask or array, got {state}")
    if 0 in state.least and op not in _OF_EMPTY:
        raise BuildError(
            f"{state} may be empty, and then has no {op}; an empty one has "
            f"{', '.join(f'{name}()' for name in _OF_EMPTY)} and len(...)"
        )
    if state.dtype not in DTYPES:
        raise BuildError(
            f"expected an image, mask or array of {', '.join(DTYPES)}, got {state}: ask for "
            "it before an op converts the levels"
        )
    if op in ("max", "min") and state.dtype == "bool":
        raise BuildError(
            f"bools have no order, got {state}; write {'any' if op == 'max' else 'all'}()"
        )
    if op in ("any", "all"):
        return "bool"
    return "float64" if op == "mean" or state.dtype in FLOATS else "int64"


def statistic(op: str, value: np.ndarray) -> bool | int | float:
    """Return a statistic of a value; the plain form of the kernels below."""
    if op in ("any", "all"):
        return bool((value != 0).any() if op == "any" else (value != 0).all())
    if value.dtype in FLOATS:
        return _statistic_of_floats(op, value)
    if op == "mean" and value.dtype == np.int64:
        return float(plain_total(value) / np.float64(value.size))
    if op == "mean":
        return float(int(value.sum(dtype=np.int64))) / float(value.size)
    if op == "sum":
        return int(value.sum(dtype=np.int64))
    return int(value.max() if op == "max" else value.min())


def _statistic_of_floats(op: str, value: np.ndarray) -> float:
    if np.isnan(value).any():
        return float("nan")
    if op in ("mean", "sum"):
        with np.errstate(all="ignore"):
            found = plain_total(value)
            found = found / np.float64(value.size) if op == "mean" else found
        return float(found) if found == found else float("nan")  # noqa: PLR0124 (infinities of both signs)
    if value.dtype == np.float64:
        words = np.ascontiguousarray(value).view(np.int64)
        keys = words ^ ((words >> SIGN) & BELOW)
        key = keys.max() if op == "max" else keys.min()
        return float(np.int64(key ^ ((key >> SIGN) & BELOW)).view(np.float64))
    keys = plain_keys(np.ascontiguousarray(value))
    return float(plain_floats(keys.max() if op == "max" else keys.min()))


@kernel
def sum_of_floats(value: Any) -> Any:
    """Return the sum of all elements in eight lanes, float64."""
    flat = value.reshape(value.size)
    found = total(add_lanes(flat, np.uint64(0), np.uint64(flat.size), EMPTY))
    return found if found == found else NAN  # noqa: PLR0124


@kernel
def mean_of_floats(value: Any) -> Any:
    """Return the mean of all elements by their sum in eight lanes, float64."""
    flat = value.reshape(value.size)
    sums = add_lanes(flat, np.uint64(0), np.uint64(flat.size), EMPTY)
    mean = total(sums) / np.float64(flat.size)
    return mean if mean == mean else NAN  # noqa: PLR0124


@kernel
def ends_of_floats(value: Any) -> Any:
    """Return the minimum and the maximum of float32, float64."""
    flat = value.reshape(value.size)
    low = high = key_of(flat[0])
    for i in range(np.uint64(flat.size)):
        key = key_of(flat[i])
        low, high = min(low, key), max(high, key)
    low = high if high == NO_FLOAT else low
    return np.float64(float_of(low)), np.float64(float_of(high))


@kernel
def ends_of_doubles(value: Any) -> Any:
    """Return the bits of the minimum and of the maximum of float64, int64."""
    flat = value.reshape(value.size)
    words = flat.view(np.int64)
    low, high = BELOW, LEAST
    for i in range(flat.size):
        key = words[i] ^ ((words[i] >> SIGN) & BELOW)
        key = key if flat[i] == flat[i] else NO_NUMBER
        low, high = min(low, key), max(high, key)
    low = high if high == NO_NUMBER else low
    return low ^ ((low >> SIGN) & BELOW), high ^ ((high >> SIGN) & BELOW)


@kernel
def max_of_floats(value: Any) -> Any:
    """Return the maximum of float32, float64."""
    return ends_of_floats(value)[1]


@kernel
def min_of_floats(value: Any) -> Any:
    """Return the minimum of float32, float64."""
    return ends_of_floats(value)[0]


@kernel
def max_of_doubles(value: Any) -> Any:
    """Return the maximum of float64, as the bits of an int64."""
    return ends_of_doubles(value)[1]


@kernel
def min_of_doubles(value: Any) -> Any:
    """Return the minimum of float64, as the bits of an int64."""
    return ends_of_doubles(value)[0]


@kernel
def sum_of(value: Any) -> Any:
    """Return the sum of all elements, int64."""
    flat = value.reshape(value.size)
    found = np.int64(0)
    for i in range(flat.size):
        found += np.int64(flat[i])
    return found


@kernel
def mean_of(value: Any) -> Any:
    """Return the mean of all elements, float64."""
    return np.float64(sum_of(value)) / np.float64(value.size)


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


@kernel
def nonzero_of(value: Any) -> Any:
    """Return how many elements are not 0, int64."""
    flat = value.reshape(value.size)
    found = np.int64(0)
    for i in range(flat.size):
        found += np.int64(flat[i] != 0)
    return found


@kernel
def any_of(value: Any) -> Any:
    """Return whether an element is not 0, as int64."""
    return np.int64(nonzero_of(value) != 0)


@kernel
def all_of(value: Any) -> Any:
    """Return whether no element is 0, as int64."""
    return np.int64(nonzero_of(value) == value.size)
