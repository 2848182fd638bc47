"""Building blocks of the decoder's vector code.

Vectors have 256 bits. On x86-64 with AVX2 five operations are single instructions that LLVM has no
portable form of; `Vectors(False)` has them as arithmetic on wider lanes, for all other processors.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from stoker.jit.processor import has_feature

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
function: Any = cgutils.get_or_insert_function


def number(value: int, kind: Any = I64) -> Any:
    """Return an integer constant."""
    return ir.Constant(kind, value)


def constant(kind: Any, values: list[int]) -> Any:
    """Return a vector of constants."""
    return ir.Constant(ir.VectorType(kind, len(values)), values)


def bytes_at(builder: Any, context: Any, array_type: Any, array: Any, offset: Any) -> Any:
    """Return the address of a byte of an array's memory."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, I8.as_pointer()), [offset])


def moved(builder: Any, address: Any, offset: Any) -> Any:
    """Return the address that many bytes later."""
    by = number(offset) if isinstance(offset, int) else offset
    return builder.gep(address, [by])


def load(builder: Any, address: Any, kind: Any) -> Any:
    """Load a value or vector from any address."""
    loaded = builder.load(builder.bitcast(address, kind.as_pointer()))
    loaded.align = 1
    return loaded


def store(builder: Any, value: Any, address: Any) -> None:
    """Store a value or vector at any address."""
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = 1


def shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    """Pick lanes of two vectors; those of `b` are numbered after those of `a`."""
    return builder.shuffle_vector(a, b, constant(I32, lanes))


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """Return lanes of one value."""
    nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(nothing, value, number(0, I32))
    return shuffle(builder, one, nothing, [0] * lanes)


def interleaved(builder: Any, a: Any, b: Any) -> list[Any]:
    """Interleave the lanes of two vectors within 16 bytes: their lower halves, their upper ones."""
    count = a.type.count
    size = 128 // a.type.element.width
    return [
        shuffle(
            builder,
            a,
            b,
            [
                s + half + n + v
                for s in range(0, count, size)
                for n in range(size // 2)
                for v in (0, count)
            ],
        )
        for half in (0, size // 2)
    ]


@contextlib.contextmanager
def repeated(builder: Any, count: Any) -> Iterator[Any]:
    """Write a loop that runs at least once; yields its index."""
    before, body = builder.basic_block, builder.append_basic_block("body")
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(I64)
    index.add_incoming(number(0), before)
    yield index
    following = builder.add(index, number(1))
    index.add_incoming(following, builder.basic_block)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_unsigned("<", following, count), body, after)
    builder.position_at_end(after)


class Vectors:
    """Operations that depend on the processor."""

    def __init__(self, avx2: bool) -> None:
        self.avx2 = avx2

    def _named(self, builder: Any, name: str, kind: Any, a: Any, b: Any) -> Any:
        signature = ir.FunctionType(kind, [a.type, b.type])
        return builder.call(function(builder.module, signature, f"llvm.x86.avx2.{name}"), [a, b])

    def pair_sums(self, builder: Any, a: Any, b: Any) -> Any:
        """Return 8 int32: sums of the products of neighboring int16."""
        kind = ir.VectorType(I32, 8)
        if self.avx2:
            return self._named(builder, "pmadd.wd", kind, a, b)
        wide = ir.VectorType(I32, 16)
        product = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
        even, odd = ([first + 2 * n for n in range(8)] for first in (0, 1))
        return builder.add(
            shuffle(builder, product, product, even), shuffle(builder, product, product, odd)
        )

    def _clipped(self, builder: Any, a: Any, b: Any, kind: Any, low: int, high: int) -> Any:
        """Clip two vectors and pack them: of each 16 bytes those of `a`, then those of `b`."""
        count = a.type.count
        parts = []
        for vector in (a, b):
            clipped = vector
            for sign, bound in ((">", low), ("<", high)):
                edge = constant(vector.type.element, [bound] * count)
                clipped = builder.select(builder.icmp_signed(sign, clipped, edge), clipped, edge)
            parts.append(builder.trunc(clipped, ir.VectorType(kind, count)))
        half = count // 2
        lanes = [s + n + v for s in (0, half) for v in (0, count) for n in range(half)]
        return shuffle(builder, parts[0], parts[1], lanes)

    def words(self, builder: Any, a: Any, b: Any) -> Any:
        """Pack int32 to int16, clipped."""
        if self.avx2:
            return self._named(builder, "packssdw", ir.VectorType(I16, 16), a, b)
        return self._clipped(builder, a, b, I16, -32768, 32767)

    def signed_bytes(self, builder: Any, a: Any, b: Any) -> Any:
        """Pack int16 to int8, clipped."""
        if self.avx2:
            return self._named(builder, "packsswb", ir.VectorType(I8, 32), a, b)
        return self._clipped(builder, a, b, I8, -128, 127)

    def levels(self, builder: Any, a: Any, b: Any) -> Any:
        """Pack int16 to uint8, clipped."""
        if self.avx2:
            return self._named(builder, "packuswb", ir.VectorType(I8, 32), a, b)
        return self._clipped(builder, a, b, I8, 0, 255)

    def scaled(self, builder: Any, a: Any, factor: int) -> Any:
        """Multiply int16 by a factor of units of 2**-15, rounded."""
        by = constant(I16, [factor] * 16)
        if self.avx2:
            return self._named(builder, "pmul.hr.sw", a.type, a, by)
        wide = ir.VectorType(I32, 16)
        product = builder.mul(builder.sext(a, wide), builder.sext(by, wide))
        rounded = builder.add(product, constant(I32, [1 << 14] * 16))
        return builder.trunc(builder.ashr(rounded, constant(I32, [15] * 16)), a.type)


FAST, PORTABLE = Vectors(has_feature("avx2")), Vectors(False)
