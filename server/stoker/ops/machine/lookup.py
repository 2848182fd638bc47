"""Tables of 256 bytes held in four registers: the twins of `stoker.ops.lookup`.

AVX-512 VBMI picks 64 bytes at once out of two registers of 64; two such picks, of the lower and of
the upper half of a table, and a choice by a level's highest bit make a look-up. A processor without
it, and one that numba was told to compile for another, get a loop over single levels.
Nothing is checked here: the callers stay inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.ops.machine.blocks import at as address
from stoker.ops.machine.blocks import load, shuffle, store
from stoker.ops.machine.processor import has_feature

types: Any = numba.types
function: Any = cgutils.get_or_insert_function
intrinsic: Any = numba.extending.intrinsic

LANES = 64
BYTES = ir.VectorType(ir.IntType(8), LANES)
PICK = "llvm.x86.avx512.vpermi2var.qi.512"


def _picked(builder: Any, levels: Any, table: Any) -> Any:
    """Look 64 levels up in the table of 256 bytes at an address."""
    kind = ir.FunctionType(BYTES, [BYTES, BYTES, BYTES])
    pick = function(builder.module, kind, PICK)
    index = ir.IntType(64)
    quarters = [
        load(builder, builder.gep(table, [ir.Constant(index, LANES * n)]), LANES) for n in range(4)
    ]
    low = builder.call(pick, [quarters[0], levels, quarters[1]])
    high = builder.call(pick, [quarters[2], levels, quarters[3]])
    upper = builder.icmp_signed("<", levels, ir.Constant(BYTES, [0] * LANES))
    return builder.select(upper, high, low)


def _by_permutation(builder: Any, image: Any, tables: list[Any]) -> None:
    """Replace as many blocks of 64 levels as there are tables; channels take turns."""
    count = len(tables)
    for block in range(count):
        place = builder.gep(image, [ir.Constant(ir.IntType(64), LANES * block)])
        levels = load(builder, place, LANES)
        done = _picked(builder, levels, tables[0])
        for c in range(1, count):
            own = [LANES + n if (LANES * block + n) % count == c else n for n in range(LANES)]
            done = shuffle(builder, done, _picked(builder, levels, tables[c]), own)
        store(builder, done, place)


def _one_by_one(builder: Any, image: Any, tables: list[Any]) -> None:
    """Replace one pixel after the other."""
    index, count = ir.IntType(64), len(tables)
    with cgutils.for_range(builder, ir.Constant(index, LANES)) as loop:
        pixel = builder.mul(loop.index, ir.Constant(index, count))
        for c, table in enumerate(tables):
            place = builder.gep(image, [builder.add(pixel, ir.Constant(index, c))])
            level = builder.zext(builder.load(place), index)
            builder.store(builder.load(builder.gep(table, [level])), place)


def _mapper(channels: int, write: Any) -> Any:
    """Return the intrinsic for one table, or for three that take turns."""

    @intrinsic  # type: ignore[untyped-decorator]
    def replace(_context: Any, image: Any, at: Any, tables: Any) -> Any:
        if {image.dtype, tables.dtype} != {types.uint8} or (image.ndim, tables.ndim) != (1, 1):
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            image, at, tables = arguments
            index = ir.IntType(64)
            first = address(builder, context, signature.args[0], image, at)
            starts = [
                address(builder, context, signature.args[2], tables, ir.Constant(index, 256 * c))
                for c in range(channels)
            ]
            write(builder, first, starts)
            return context.get_dummy_value()

        return types.none(image, types.int64, tables), build

    return replace


_write = _by_permutation if has_feature("avx512vbmi") else _one_by_one
map64, map192 = _mapper(1, _write), _mapper(3, _write)
slow64, slow192 = _mapper(1, _one_by_one), _mapper(3, _one_by_one)
