"""Compiled twins of kernels that numba cannot derive from Python.

Imports numba; only ever imported through a kernel's `twin`.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import imputils
from numba.extending import intrinsic


@intrinsic
def mutable(typingctx: Any, array: Any) -> Any:
    """Twin of `stoker.pipeline.support.mutable`: the same memory, typed as writable."""
    writable = array.copy(readonly=False)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        borrowed: Any = imputils.impl_ret_borrowed
        return borrowed(context, builder, signature.return_type, args[0])

    if not isinstance(array, types.Array):
        return None
    return writable(array), codegen
