"""Small building blocks of vector code that several twins share."""

import contextlib
from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from stoker.ops.kernels.simd.blocks import I32, shuffle

I64 = ir.IntType(64)
LANE = 16
"""Bytes of a lane: x86 shuffles within lanes with single instructions."""


def constant(kind: Any, lanes: int, number: float) -> Any:
    """Return a vector of one constant."""
    return ir.Constant(ir.VectorType(kind, lanes), [number] * lanes)


def splat(builder: Any, number: Any, lanes: int) -> Any:
    """Return lanes of one number."""
    kind = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(I32, 0))
    return shuffle(builder, one, nothing, [0] * lanes)


@contextlib.contextmanager
def repeated(builder: Any, count: Any) -> Iterator[Any]:
    """Write a loop that runs at least once; yields its index."""
    before, body = builder.basic_block, builder.append_basic_block("body")
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(I64)
    index.add_incoming(ir.Constant(I64, 0), before)
    yield index
    following = builder.add(index, ir.Constant(I64, 1))
    index.add_incoming(following, builder.basic_block)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_unsigned("<", following, count), body, after)
    builder.position_at_end(after)


@contextlib.contextmanager
def blocks(builder: Any, size: int, end: Any) -> Iterator[Any]:
    """Write a loop over blocks, the last of which overlaps the previous one; yields their start."""
    whole = builder.udiv(builder.add(end, ir.Constant(I64, size - 1)), ir.Constant(I64, size))
    last = builder.sub(end, ir.Constant(I64, size))
    with repeated(builder, whole) as index:
        start = builder.mul(index, ir.Constant(I64, size))
        yield builder.select(builder.icmp_unsigned("<", start, last), start, last)


def as_lanes(builder: Any, vector: Any, kind: Any) -> Any:
    """Return the bits of a vector as lanes of another type."""
    lanes = vector.type.count * vector.type.element.width // kind.width
    return builder.bitcast(vector, ir.VectorType(kind, lanes))


def interleaved(builder: Any, a: Any, b: Any) -> list[Any]:
    """Interleave two vectors: the lower halves of their lanes, then the upper ones."""
    count = a.type.count
    size = LANE * 8 // a.type.element.width
    starts = range(0, count, size)
    return [
        shuffle(
            builder,
            a,
            b,
            [s + half + n + v for s in starts for n in range(size // 2) for v in (0, count)],
        )
        for half in (0, size // 2)
    ]
