"""Sums of bytes times weights over taps, in registers: shared by `tap_rows` and `tap_columns`.

Taps come in quads, levels as pairs of int16 in dwords: one of taps 0 and 1, one of 2 and 3. One
instruction of x86 (`pmaddwd`) multiplies pairs by the low halves of their weights and adds the two
products; another does so with the high halves. If a processor has `vpdpwssd`, it also adds them to
the sums. The sums are then low + high * 2**16, as of whole weights, and no part
leaves int32: the absolute weights of a table have a sum below 2**23. Other processors
multiply whole weights in int32.

`register` is the size in bytes of the vectors that instructions of x86 take, 0 elsewhere.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from stoker.jit.processor import has_feature, is_x86
from stoker.ops.kernels.simd.blocks import I8, I32, shuffle
from stoker.ops.kernels.simd.vectors import I64, LANE, as_lanes, constant, splat
from stoker.ops.kernels.taps import PRECISION

function: Any = cgutils.get_or_insert_function
room: Any = cgutils.alloca_once

I16 = ir.IntType(16)
QUAD = 4
"""Taps, and dwords of a lane."""
X86 = {
    16: ("sse2.pmadd.wd", "sse2.packssdw.128", "sse2.packuswb.128"),
    32: ("avx2.pmadd.wd", "avx2.packssdw", "avx2.packuswb"),
}
"""Instructions by bytes of a register: multiply and add pairs; narrow, saturating, to half."""
REGISTER = (32 if has_feature("avx2") else LANE) if is_x86() else 0
"""Bytes of a register of x86; 0: another processor."""


def _packed(builder: Any, a: Any, b: Any) -> Any:
    """Keep the lower half of each element of two vectors: for every lane those of `a`, then `b`."""
    half = ir.IntType(a.type.element.width // 2)
    first, second = as_lanes(builder, a, half), as_lanes(builder, b, half)
    count, size = first.type.count, LANE * 8 // half.width
    lanes = [
        s + 2 * n + v for s in range(0, count, size) for v in (0, count) for n in range(size // 2)
    ]
    return shuffle(builder, first, second, lanes)


def bytes_of(builder: Any, four: list[Any], register: int) -> Any:
    """Round, clip and pack four vectors of sums: of each lane, the first's, the second's, ..."""
    halves = []
    for n in (0, 2):
        a, b = four[n], four[n + 1]
        half = _x86(builder, 1, a, b, I16) if register else _packed(builder, a, b)
        lanes = half.type.count
        rounded = builder.add(half, constant(I16, lanes, 1 << (PRECISION - 17)))
        halves.append(builder.ashr(rounded, constant(I16, lanes, PRECISION - 16)))
    if register:
        return _x86(builder, 2, halves[0], halves[1], I8)
    return _packed(builder, *(_clipped(builder, half) for half in halves))


def _clipped(builder: Any, levels: Any) -> Any:
    """Clip int16 to 0 and 255."""
    for sign, bound in ((">", 0), ("<", 255)):
        edge = constant(I16, levels.type.count, bound)
        levels = builder.select(builder.icmp_signed(sign, levels, edge), levels, edge)
    return levels


def _x86(builder: Any, which: int, a: Any, b: Any, kind: Any) -> Any:
    """Use an instruction of X86 on two vectors of a register."""
    register = a.type.count * a.type.element.width // 8
    result = ir.VectorType(kind, 8 * register // kind.width)
    signature = ir.FunctionType(result, [a.type, b.type])
    named = function(builder.module, signature, "llvm.x86." + X86[register][which])
    return builder.call(named, [a, b])


def _whole(builder: Any, low: Any, high: Any, upper: bool) -> Any:
    """Return a weight from the words that hold its halves, in their lower or their upper half."""
    sixteen = ir.Constant(I32, 16)
    if upper:
        return builder.add(
            builder.ashr(low, sixteen), builder.and_(high, ir.Constant(I32, 0xFFFF0000))
        )
    half = builder.sext(builder.trunc(low, I16), I32)
    return builder.add(half, builder.shl(high, sixteen))


def weights_of(builder: Any, words: Any, register: int) -> list[Any]:
    """Load the words of a quad as vectors: the factors of pairs, or whole weights."""
    lanes = (register or LANE) // 4
    four = [builder.load(builder.gep(words, [ir.Constant(I64, n)])) for n in range(QUAD)]
    if register:
        return [as_lanes(builder, splat(builder, word, lanes), I16) for word in four]
    whole = [_whole(builder, four[n // 2], four[n // 2 + 2], n % 2 > 0) for n in range(QUAD)]
    return [splat(builder, weight, lanes) for weight in whole]


class Sums:
    """The sums of some vectors over quads of taps, while their code is written."""

    def __init__(self, builder: Any, vectors: int, register: int) -> None:
        self.builder, self.lanes, self.register = builder, (register or LANE) // 4, register
        self.low = [self._room() for _ in range(vectors)]
        self.high = [self._room() for _ in range(vectors)]

    def _room(self) -> Any:
        nothing = constant(I32, self.lanes, 0)
        place = room(self.builder, nothing.type)
        self.builder.store(nothing, place)
        return place

    def _grow(self, place: Any, some: Any) -> None:
        builder = self.builder
        builder.store(builder.add(builder.load(place), some), place)

    def add(self, weights: list[Any], quads: list[Any]) -> None:
        """Add a quad of taps: its `weights_of`, and two vectors of pairs per sum."""
        for low, high, pairs in zip(self.low, self.high, quads, strict=True):
            if self.register:
                self._add_pairs(low, high, weights, pairs)
            else:
                self._add_whole(low, weights, pairs)

    def _add_pairs(self, low: Any, high: Any, weights: list[Any], pairs: list[Any]) -> None:
        for n, pair in enumerate(pairs):
            self._grow(low, _x86(self.builder, 0, pair, weights[n], I32))
            self._grow(high, _x86(self.builder, 0, pair, weights[n + 2], I32))

    def _add_whole(self, total: Any, weights: list[Any], pairs: list[Any]) -> None:
        builder, lanes = self.builder, self.lanes
        for n, pair in enumerate(pairs):
            both = as_lanes(builder, pair, I32)
            first = builder.and_(both, constant(I32, lanes, 0xFFFF))
            second = builder.lshr(both, constant(I32, lanes, 16))
            self._grow(total, builder.mul(first, weights[2 * n]))
            self._grow(total, builder.mul(second, weights[2 * n + 1]))

    def done(self) -> list[Any]:
        """Return the sums in units of 2**16, which fit int16, as int32."""
        builder, sixteen = self.builder, constant(I32, self.lanes, 16)
        return [
            builder.add(builder.ashr(builder.load(low), sixteen), builder.load(high))
            for low, high in zip(self.low, self.high, strict=True)
        ]


def either(builder: Any, count: Any, write: Callable[[bool], None]) -> None:
    """Write code for one quad of taps, and for more."""
    one = builder.icmp_signed("==", count, ir.Constant(I64, QUAD))
    with builder.if_else(one) as (then, otherwise):
        with then:
            write(True)
        with otherwise:
            write(False)
