"""Blocks of pixels turned in registers: the twins of `stoker.ops.kernels.blocks`.

A block of n by n elements is transposed in log2(n) rounds, each of which interleaves the lanes of
register i with those of register i + n / 2. Pixels of three bytes use lanes of four.
Nothing is checked here: the callers stay inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

I8 = ir.IntType(8)
I32 = ir.IntType(32)


def shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """Pick lanes of two vectors of one type; those of `b` are numbered after those of `a`."""
    picked = ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
    return builder.shuffle_vector(a, b, picked)


def at(builder: Any, context: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Return the address of an element of a flat array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def load(builder: Any, address: Any, count: int) -> Any:
    """Load `count` elements from any address, as a vector."""
    vector = ir.VectorType(address.type.pointee, count)
    loaded = builder.load(builder.bitcast(address, vector.as_pointer()))
    loaded.align = 1
    return loaded


def store(builder: Any, vector: Any, address: Any) -> None:
    """Store a vector at any address."""
    pointer = builder.bitcast(address, vector.type.as_pointer())
    builder.store(vector, pointer).align = 1


def transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose n vectors of n lanes; n is a power of two."""
    n = len(rows)
    low = [lane // 2 + (lane % 2) * n for lane in range(n)]
    high = [lane + n // 2 for lane in low]
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + n // 2]) for i in range(n // 2)]
        rows = [shuffle(builder, a, b, half) for a, b in pairs for half in (low, high)]
    return rows


def _spread(builder: Any, row: Any) -> Any:
    """Give each of four pixels of three bytes a lane of four."""
    lanes = [lane for x in range(4) for lane in (3 * x, 3 * x + 1, 3 * x + 2, 3 * x)]
    return shuffle(builder, row, row, lanes)


def _gathered(builder: Any, row: Any) -> Any:
    """Drop the fourth byte of each of four lanes."""
    lanes = [4 * x + c for x in range(4) for c in range(3)]
    return shuffle(builder, row, row, lanes)


def _turned(builder: Any, rows: list[Any], pixel: int) -> list[Any]:
    """Transpose rows of bytes as pixels of 1, 2, 3 or 4 bytes."""
    wide = [_spread(builder, row) for row in rows] if pixel == 3 else rows
    element, count = ir.IntType(32 if pixel == 3 else 8 * pixel), len(rows)
    lanes = ir.VectorType(element, count)
    done = transposed(builder, [builder.bitcast(row, lanes) for row in wide])
    back = [builder.bitcast(row, wide[0].type) for row in done]
    return [_gathered(builder, row) for row in back] if pixel == 3 else back


def _block(pixel: int, side: int) -> Any:
    """Return the intrinsic that turns `side` by `side` pixels of `pixel` bytes."""

    @intrinsic  # type: ignore[untyped-decorator]
    def turn(_context: Any, src: Any, start: Any, step: Any, dst: Any, to: Any, line: Any) -> Any:
        if {src.dtype, dst.dtype} != {types.uint8} or (src.ndim, dst.ndim) != (1, 1):
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, start, step, b, to, line = arguments
            rows = []
            for _ in range(side):
                address = at(builder, context, signature.args[0], a, start)
                rows.append(load(builder, address, side * pixel))
                start = builder.add(start, step)
            for row in _turned(builder, rows, pixel):
                store(builder, row, at(builder, context, signature.args[3], b, to))
                to = builder.add(to, line)
            return context.get_dummy_value()

        return types.none(src, types.int64, types.int64, dst, types.int64, types.int64), build

    return turn


turn1 = _block(1, 16)
turn2 = _block(2, 8)
turn3 = _block(3, 4)
turn4 = _block(4, 4)
