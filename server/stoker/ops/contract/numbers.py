"""NumPy scalars as Python numbers, so that a pipeline is one whichever its author counted with.

`np.int64(3)` and `3` are the same parameter: the graph, and with it the pipeline id, holds Python
numbers alone. A float keeps its value: `np.float32(0.1)` is 0.10000000149011612.
"""

from typing import Any, Final

import numpy as np

_TYPES: Final = {"b": bool, "i": int, "u": int, "f": float, "U": str}


def settled(value: Any) -> Any:
    """Return a NumPy scalar as Python's number or text, and anything else as it is.

    In lists and tuples, also nested ones, each part is settled; they remain lists and tuples.
    """
    if isinstance(value, np.generic):
        return _TYPES.get(value.dtype.kind, lambda other: other)(value)
    if type(value) in (list, tuple):
        return type(value)(map(settled, value))
    return value
