"""The dtypes in which kernels see records, so that numba never confuses two of them.

numba treats a record type as a subtype of every other whose fields it begins with: it may then run
code that was compiled for the shorter one, and warns about it. A title of the first field that
contains the whole layout makes any two different records differ from their first field on. Titles
change neither a byte nor a name. For compiled code only: contracts, graphs and users see the dtype
as its op declares it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np


@functools.lru_cache(maxsize=4096)
def machine_record(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a structured dtype in the form for kernels: same names, offsets and size, titled.

    Args:
        dtype: parameters or draw record of an op.
    """
    names = dtype.names or ()
    known: Mapping[str, Any] = dtype.fields or {}
    fields = [known[name] for name in names]
    layout = " ".join(f"{n}:{f[0]}@{f[1]}" for n, f in zip(names, fields, strict=True))
    return np.dtype(
        {
            "names": list(names),
            "formats": [field[0] for field in fields],
            "offsets": [field[1] for field in fields],
            "titles": [f"{layout} of {dtype.itemsize}", *[None] * (len(names) - 1)],
            "itemsize": dtype.itemsize,
        }
    )
