"""Image statistics as numbers of a graph: `value.mean()`, `value.max()`, `value.min()`.

Exact and the same on every machine: of whole numbers only. The sum and the count are exact
integers; the mean is their quotient in float64, each of the three operations rounded once. All
channels count alike. numba-free.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stoker.ops.contract import State
from stoker.protocol.errors import BuildError
from stoker.rng.jit import kernel

STATISTICS: Final = ("mean", "max", "min")
DTYPES: Final = ("uint8", "uint16", "int32")


def check_statistic(op: str, state: State) -> None:
    """Refuse what has no exact statistics.

    Raises:
        BuildError: the value is no array of small whole numbers.
    """
    if 0 in state.least and not state.items:
        raise BuildError(f"{op} of {state}: it may be empty, and then has no {op}")
    if state.dtype not in DTYPES or not state.shape or state.items:
        raise BuildError(
            f"{op} is that of an image, mask or array of {', '.join(DTYPES)}, got {state}: ask for "
            "it before an op makes floats of the levels"
        )


def statistic(op: str, value: np.ndarray) -> int | float:
    """Return a statistic of a value; the plain form of the kernels below."""
    if op == "mean":
        return float(int(value.sum(dtype=np.int64))) / float(value.size)
    return int(value.max() if op == "max" else value.min())


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
    """Return the greatest element, int64."""
    flat = value.reshape(value.size)
    found = flat[0]
    for i in range(flat.size):
        found = max(found, flat[i])
    return np.int64(found)


@kernel
def min_of(value: Any) -> Any:
    """Return the least element, int64."""
    flat = value.reshape(value.size)
    found = flat[0]
    for i in range(flat.size):
        found = min(found, flat[i])
    return np.int64(found)
