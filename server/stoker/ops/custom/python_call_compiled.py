"""Compiled twins of the parts of `stoker.ops.custom.python_call` that need numba. Imports numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype

from stoker.ops.custom.python_call import ELEMENTS


@intrinsic
def call_address(typingctx: Any, address: Any, argument: Any) -> Any:
    """Call a C function `void f(int64_t)` at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        function = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(function, [args[1]])
        return context.get_dummy_value()

    return types.void(types.uint64, types.int64), codegen


@intrinsic
def element(typingctx: Any, array: Any) -> Any:
    """The index of an array's dtype in `ELEMENTS`."""
    number = ELEMENTS.index(np.dtype(as_dtype(array.dtype)).name)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), number)

    return types.int64(array), codegen
