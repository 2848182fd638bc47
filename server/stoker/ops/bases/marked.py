"""Pixels of a mask that are not ignored: how many there are, and where the n-th one is.

The plain forms use NumPy, because draws run uncompiled in the interpreter and a mask has many
pixels; the twins in `simd.marked` allocate nothing.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel


@kernel(twin="stoker.ops.kernels.simd.marked:count_marked")
def count_marked(mask: Any, ignore: Any, count: int) -> int:
    """Return the number of pixels whose class is not ignored.

    Args:
        mask: (H, W), integers that int32 can hold.
        ignore: int32, at least `count` different class numbers.
        count: how many of them are ignored.
    """
    return int(_marked(mask, ignore, count).sum())


@kernel(twin="stoker.ops.kernels.simd.marked:find_marked")
def find_marked(mask: Any, ignore: Any, count: int, rank: int) -> int:
    """Return the index, row by row, of a pixel whose class is not ignored.

    Args:
        mask: as for `count_marked`.
        ignore: as for `count_marked`.
        count: as for `count_marked`.
        rank: how many such pixels come before it; below their number.
    """
    return int(np.flatnonzero(_marked(mask, ignore, count))[rank])


def _marked(mask: np.ndarray, ignore: np.ndarray, count: int) -> np.ndarray:
    return ~np.isin(mask, np.asarray(ignore)[:count])
