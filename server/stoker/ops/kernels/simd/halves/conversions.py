"""float32 to float16 bits and back: the twins of `stoker.ops.kernels.half`.

LLVM's `fptrunc` and `fpext`, which it vectorizes: one instruction for 16 values if a processor
has it (F16C or AVX-512 on x86-64, every arm64). Otherwise they would become calls of a library that
is not available, and the twins use integer arithmetic on the bits instead, with the same result.
"""

import platform
from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.jit.processor import has_feature, is_native
from stoker.ops.kernels.half import NOT_A_NUMBER, narrowed_bits, widened_bits

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

HALF, WORD = ir.HalfType(), ir.IntType(16)


def has_conversions() -> bool:
    """Whether code is compiled for this processor, and it converts float16."""
    return has_feature("f16c") or (is_native() and platform.machine() in ("aarch64", "arm64"))


@intrinsic  # type: ignore[untyped-decorator]
def _widened(_context: Any, bits: Any) -> Any:
    if bits != types.uint16:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], HALF), ir.FloatType())

    return types.float32(bits), build


@intrinsic  # type: ignore[untyped-decorator]
def _narrowed(_context: Any, x: Any) -> Any:
    if x != types.float32:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        bits = builder.bitcast(builder.fptrunc(args[0], HALF), WORD)
        odd = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.select(odd, ir.Constant(WORD, int(NOT_A_NUMBER)), bits)

    return types.uint16(x), build


widened = _widened if has_conversions() else widened_bits
narrowed = _narrowed if has_conversions() else narrowed_bits
