"""Arguments for kernels in tests of ops: painted memory, and records as kernels take them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stoker.ops.contract.machine_records import machine_record

PAINT: Final = 0xA5
OTHER_PAINT: Final = 0x3C


def structured(dtype: np.dtype[Any], value: np.ndarray | None = None, paint: int = 0) -> Any:
    """Return a record (np.void) that kernels take, with its own memory."""
    array = np.full(dtype.itemsize, paint, np.uint8).view(machine_record(dtype))
    if value is not None:
        array[0] = value[()]
    return array[0]
