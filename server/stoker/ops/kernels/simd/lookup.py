"""Tables of 256 bytes held in four registers: the twins of `stoker.ops.lookup`.

AVX-512 VBMI picks 64 bytes at once from two registers of 64; two such picks, from the lower and
the upper half of a table, and a choice by a level's highest bit make a look-up. The tables stay in
their registers for all blocks of a call. A processor without it, or code that numba compiles for
another processor, uses a loop over single levels.
Nothing is checked here: the callers stay inside of all arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.jit.processor import has_feature
from stoker.ops.kernels.simd.blocks import at as address
from stoker.ops.kernels.simd.blocks import load, shuffle, store

types: Any = numba.types
function: Any = cgutils.get_or_insert_function
intrinsic: Any = numba.extending.intrinsic

LANES = 64
INDEX = ir.IntType(64)
BYTES = ir.VectorType(ir.IntType(8), LANES)
PICK = "llvm.x86.avx512.vpermi2var.qi.512"


def _quarters(builder: Any, table: Any) -> list[Any]:
    """Return the table of 256 bytes at an address, in four registers."""
    places = [builder.gep(table, [ir.Constant(INDEX, LANES * n)]) for n in range(4)]
    return [load(builder, place, LANES) for place in places]


def picked(builder: Any, levels: Any, quarters: list[Any]) -> Any:
    """Look 64 levels up in a table."""
    kind = ir.FunctionType(BYTES, [BYTES, BYTES, BYTES])
    pick = function(builder.module, kind, PICK)
    low = builder.call(pick, [quarters[0], levels, quarters[1]])
    high = builder.call(pick, [quarters[2], levels, quarters[3]])
    upper = builder.icmp_signed("<", levels, ir.Constant(BYTES, [0] * LANES))
    return builder.select(upper, high, low)


def _by_permutation(builder: Any, source: Any, image: Any, blocks: Any, tables: list[Any]) -> None:
    """Replace blocks of 64 levels per table; channels take turns."""
    held, count = [_quarters(builder, table) for table in tables], len(tables)
    with cgutils.for_range(builder, blocks) as loop:
        first = builder.mul(loop.index, ir.Constant(INDEX, LANES * count))
        for part in range(count):
            at = builder.add(first, ir.Constant(INDEX, LANES * part))
            levels = load(builder, builder.gep(source, [at]), LANES)
            done = picked(builder, levels, held[0])
            for c in range(1, count):
                own = [LANES + n if (LANES * part + n) % count == c else n for n in range(LANES)]
                done = shuffle(builder, done, picked(builder, levels, held[c]), own)
            store(builder, done, builder.gep(image, [at]))


def _one_by_one(builder: Any, source: Any, image: Any, blocks: Any, tables: list[Any]) -> None:
    """Replace one pixel after the other."""
    count = len(tables)
    with cgutils.for_range(builder, builder.mul(blocks, ir.Constant(INDEX, LANES))) as loop:
        pixel = builder.mul(loop.index, ir.Constant(INDEX, count))
        for c, table in enumerate(tables):
            at = builder.add(pixel, ir.Constant(INDEX, c))
            level = builder.zext(builder.load(builder.gep(source, [at])), INDEX)
            builder.store(builder.load(builder.gep(table, [level])), builder.gep(image, [at]))


def _mapper(channels: int, write: Any) -> Any:
    """Return the intrinsic for one table, or for three that take turns."""

    @intrinsic  # type: ignore[untyped-decorator]
    def replace(_context: Any, source: Any, image: Any, blocks: Any, tables: Any) -> Any:
        arrays = (source, image, tables)
        if any(array.dtype != types.uint8 or array.ndim != 1 for array in arrays):
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, image, blocks, tables = arguments

            def begin(place: int, array: Any, index: int = 0) -> Any:
                start = ir.Constant(INDEX, index)
                return address(builder, context, signature.args[place], array, start)

            starts = [begin(3, tables, 256 * c) for c in range(channels)]
            write(builder, begin(0, source), begin(1, image), blocks, starts)
            return context.get_dummy_value()

        return types.none(source, image, types.int64, tables), build

    return replace


IN_REGISTERS = has_feature("avx512vbmi")
"""Whether tables are kept in registers; otherwise a look-up is slower than arithmetic."""
_write = _by_permutation if IN_REGISTERS else _one_by_one
map_levels, map_colors = _mapper(1, _write), _mapper(3, _write)
slow_levels, slow_colors = _mapper(1, _one_by_one), _mapper(3, _one_by_one)
