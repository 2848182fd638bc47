"""Compiled twins of kernels of `stoker.compat.ffcv.row_draws`. Imports numba."""

from typing import Any

import numba
import numba.extending
import numpy as np

from stoker.jit import handwritten

types: Any = numba.types
overload: Any = numba.extending.overload


@handwritten
def key_at(keys, row):  # type: ignore[no-untyped-def]
    """The key of a row: a tuple of five uint64."""
    return keys[row, 0], keys[row, 1], keys[row, 2], keys[row, 3], keys[row, 4]


def members(a: Any) -> np.ndarray:
    """The values of an int or an array; in numba, the overload below."""
    raise NotImplementedError


@overload(members)  # type: ignore[untyped-decorator]
def _members(a: Any) -> Any:
    return _below if isinstance(a, types.Integer) else _own


def _below(a: Any) -> np.ndarray:
    return np.arange(a)


def _own(a: Any) -> np.ndarray:
    return np.asarray(a)
