"""Memory that tests of ops give to kernels: painted margins, and records as kernels take them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stoker.ops.records import machine_record

GUARD: Final = 64
PAINT: Final = 0xA5
OTHER_PAINT: Final = 0x3C


def guarded(size: int, paint: int = PAINT) -> tuple[np.ndarray, np.ndarray]:
    """Return (whole, inner): `inner` of `size` bytes, 64-byte aligned, painted margins round it."""
    whole = np.full(size + 2 * GUARD + 64, paint, np.uint8)
    start = GUARD + (-(whole.ctypes.data + GUARD)) % 64
    return whole, whole[start : start + size]


def untouched(whole: np.ndarray, inner: np.ndarray, paint: int = PAINT) -> bool:
    """Whether the margins are as they were painted."""
    start = inner.ctypes.data - whole.ctypes.data
    return bool((whole[:start] == paint).all() and (whole[start + inner.size :] == paint).all())


def structured(dtype: np.dtype[Any], value: np.ndarray | None = None, paint: int = 0) -> Any:
    """Return a record (np.void) that kernels take, with memory of its own."""
    array = np.full(dtype.itemsize, paint, np.uint8).view(machine_record(dtype))
    if value is not None:
        array[0] = value[()]
    return array[0]
