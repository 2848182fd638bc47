"""A float32 as its 32 bits, and back: the twins of `stoker.ops.kernels.words`."""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def float_word(_context: Any, x: Any) -> Any:
    """The bits of a float32, as uint32."""
    if x != types.float32:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(x), build


@intrinsic  # type: ignore[untyped-decorator]
def word_float(_context: Any, word: Any) -> Any:
    """The float32 of a uint32's bits."""
    if word != types.uint32:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(word), build
