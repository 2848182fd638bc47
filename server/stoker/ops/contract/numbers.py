"""Convert NumPy scalars to Python numbers, so `np.int64(3)` and `3` give the same pipeline id.

The graph, and with it the pipeline id, contains only Python numbers. A float keeps its value:
`np.float32(0.1)` is 0.10000000149011612.
"""

from typing import Any, Final

import numpy as np

_TYPES: Final = {"b": bool, "i": int, "u": int, "f": float, "U": str}


def settled(value: Any) -> Any:
    """Return a NumPy scalar as a Python number or string, and any other value unchanged.

    Elements of lists and tuples are converted too, also nested ones; containers keep their type. An
    array becomes a list.
    """
    if isinstance(value, np.ndarray):
        return settled(value[()]) if not value.ndim else [settled(part) for part in value]
    if isinstance(value, np.generic):
        return _TYPES.get(value.dtype.kind, lambda other: other)(value)
    if type(value) in (list, tuple):
        return type(value)(map(settled, value))
    return value
