"""Sums of many numbers in a fixed order that is also fast: eight float64 lanes, then a fixed tree.

Value n is added to lane n mod 8, each lane from 0.0 on in the order of n; the sum is
((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)). Every addition is rounded once, in float64.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

LANES: Final = 8
NOTHING: Final = np.float64(0)
EMPTY: Final = (NOTHING,) * LANES
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)
K4: Final = np.uint64(4)
K5: Final = np.uint64(5)
K6: Final = np.uint64(6)
K7: Final = np.uint64(7)
K8: Final = np.uint64(8)


@kernel
def add_lanes(values: Any, start: Any, count: Any, sums: Any) -> Any:
    """Return lanes after adding `count` values, the first one to lane 0.

    Args:
        values: flat float32, float64 or int64.
        start: index of the first value, uint64.
        count: number of values, uint64; divisible by 8 if more follow.
        sums: eight float64, `EMPTY` at first.
    """
    s0, s1, s2, s3, s4, s5, s6, s7 = sums
    for i in range(count // K8):
        k = start + K8 * i
        s0 += np.float64(values[k])
        s1 += np.float64(values[k + K1])
        s2 += np.float64(values[k + K2])
        s3 += np.float64(values[k + K3])
        s4 += np.float64(values[k + K4])
        s5 += np.float64(values[k + K5])
        s6 += np.float64(values[k + K6])
        s7 += np.float64(values[k + K7])
    k, left = start + count // K8 * K8, count % K8
    s0 += value_before(values, k, K1, left)
    s1 += value_before(values, k, K2, left)
    s2 += value_before(values, k, K3, left)
    s3 += value_before(values, k, K4, left)
    s4 += value_before(values, k, K5, left)
    s5 += value_before(values, k, K6, left)
    s6 += value_before(values, k, K7, left)
    return s0, s1, s2, s3, s4, s5, s6, s7


@kernel
def value_before(values: Any, at: Any, place: Any, left: Any) -> Any:
    """Return the value number `place`, counted from 1 at index `at`; 0 after the last."""
    return np.float64(values[at + place - K1]) if place <= left else NOTHING


@kernel
def total(sums: Any) -> Any:
    """Return the sum of eight lanes."""
    s0, s1, s2, s3, s4, s5, s6, s7 = sums
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


def plain_total(values: np.ndarray) -> np.float64:
    """Return the sum of values, with NumPy: lanes are columns, added from row to row."""
    lanes = np.zeros((-(-values.size // LANES) + 1, LANES))
    lanes.reshape(-1)[LANES : LANES + values.size] = values.reshape(-1)
    with np.errstate(all="ignore"):
        found: np.float64 = total(tuple(np.add.accumulate(lanes, 0)[-1]))
    return found
