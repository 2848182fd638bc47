"""The inverse DCT of 16 blocks at once, one in each lane: the twins of `decoding.transform`.

Coefficients come in zigzag order, 8 of a block in a register. A transpose of 8 by 8 in each half of
16 registers brings coefficient k of all blocks into one; it is multiplied by its quantization and
stored at its row and column. Then all columns are transformed, then all rows: a 1-D transform
takes 8 registers, and products are pair sums (`pmaddwd`) in int32.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.dataset.images.jpeg.decoding.simd.building import (
    FAST,
    I8,
    I16,
    I32,
    I64,
    PORTABLE,
    Vectors,
    bytes_at,
    constant,
    interleaved,
    load,
    moved,
    number,
    repeated,
    shuffle,
    store,
)
from stoker.dataset.images.jpeg.decoding.sizes import FIRST_TEN, LANES
from stoker.dataset.images.jpeg.decoding.transform import FACTORS, SHIFTS, ZIGZAG

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

ROW = ir.VectorType(I16, LANES)
EIGHT = ir.VectorType(I16, 8)
BYTES = 2 * LANES
"""Bytes of a register."""


def _pair(first: int, second: int) -> Any:
    return constant(I16, [first, second] * (LANES // 2))


class Transform:
    """A transform, while its code is written.

    Attributes:
        sides: rows and columns that may have coefficients: 8, or 4 in sparse blocks.
        used: those of them that have a part.
    """

    def __init__(self, builder: Any, vectors: Vectors, sides: int, used: tuple[int, ...]) -> None:
        self.builder, self.vectors, self.sides, self.used = builder, vectors, sides, used

    def both(self, a: Any, b: Any, factors: list[tuple[int, int]]) -> list[list[Any]]:
        """Return, for each two factors, a * first + b * second as two registers of int32."""
        pairs = interleaved(self.builder, a, b)
        return [
            [self.vectors.pair_sums(self.builder, pair, _pair(*two)) for pair in pairs]
            for two in factors
        ]

    def sums(self, a: list[Any], b: list[Any]) -> list[Any]:
        """Return a + b, register by register."""
        return [self.builder.add(x, y) for x, y in zip(a, b, strict=True)]

    def differences(self, a: list[Any], b: list[Any]) -> list[Any]:
        """Return a - b, register by register."""
        return [self.builder.sub(x, y) for x, y in zip(a, b, strict=True)]

    def scaled(self, a: Any, shift: int, bits: int = 13) -> list[Any]:
        """Return a * 2**bits, and half of the unit of the result, as int32."""
        half = constant(I32, [1 << (shift - 1)] * (LANES // 2))
        parts = []
        for pair in interleaved(self.builder, constant(I16, [0] * LANES), a):
            wide = self.builder.bitcast(pair, ir.VectorType(I32, LANES // 2))
            wide = self.builder.ashr(wide, constant(I32, [16 - bits] * (LANES // 2)))
            parts.append(self.builder.add(wide, half))
        return parts

    def one(self, given: list[Any], shift: int) -> list[Any]:
        """Transform 8 registers, as `transform.transform_8`."""
        builder, nothing = self.builder, constant(I16, [0] * LANES)
        x = [*given, *[nothing] * (8 - len(given))]
        short = self.sides == 4
        even2, even3 = self.both(x[2], x[6], FACTORS["even"])
        low = self.scaled(x[0] if short else builder.add(x[0], x[4]), shift)
        high = low if short else self.scaled(builder.sub(x[0], x[4]), shift)
        z3 = x[3] if short else builder.add(x[7], x[3])
        z4 = x[1] if short else builder.add(x[5], x[1])
        third, fourth = self.both(z3, z4, FACTORS["sums"])
        outer = self.both(x[7], x[1], FACTORS["outer"])
        inner = self.both(x[5], x[3], FACTORS["inner"])
        odd = [
            self.sums(outer[1], fourth),
            self.sums(inner[1], third),
            self.sums(inner[0], fourth),
            self.sums(outer[0], third),
        ]
        even = [
            self.sums(low, even3),
            self.sums(high, even2),
            self.differences(high, even2),
            self.differences(low, even3),
        ]
        return self.joined(even, odd, shift)

    def joined(self, even: list[Any], odd: Iterable[Any], shift: int) -> list[Any]:
        """Return outputs of a pass as `transform.joined`; `even` has half of the unit already."""
        by = constant(I32, [shift] * (LANES // 2))

        def packed(total: list[Any]) -> Any:
            parts = [self.builder.ashr(part, by) for part in total]
            return self.vectors.words(self.builder, *parts)

        both = [
            [packed(total) for total in (self.sums(e, o), self.differences(e, o))]
            for e, o in zip(even, odd, strict=True)
        ]
        return [upper for upper, _ in both] + [lower for _, lower in reversed(both)]

    def gather(self, sources: list[Any], quantizers: Any, scratch: Any) -> None:
        """Load, transpose and dequantize the coefficients of all blocks."""
        builder = self.builder
        count = FIRST_TEN if self.sides == 4 else 64
        for first in range(0, count, 8):
            rows = []
            for n in range(8):
                two = [
                    load(builder, moved(builder, sources[n + 8 * half], 2 * first), EIGHT)
                    for half in range(2)
                ]
                rows.append(shuffle(builder, two[0], two[1], list(range(16))))
            for _ in range(3):
                rows = [
                    part for n in range(4) for part in interleaved(builder, rows[n], rows[n + 4])
                ]
            for n, row in enumerate(rows[: count - first]):
                k = first + n
                if ZIGZAG[k] // 8 not in self.used or ZIGZAG[k] % 8 not in self.used:
                    continue
                by = load(builder, moved(builder, quantizers, BYTES * k), ROW)
                store(builder, builder.mul(row, by), moved(builder, scratch, BYTES * ZIGZAG[k]))
        square = {8 * y + x for y in self.used for x in self.used}
        for place in sorted(square - set(ZIGZAG[:count])):
            store(builder, constant(I16, [0] * LANES), moved(builder, scratch, BYTES * place))

    def columns(self, scratch: Any) -> None:
        """Transform all columns in place."""
        builder, line = self.builder, 8 * BYTES
        with repeated(builder, number(self.sides)) as column:
            base = moved(builder, scratch, builder.mul(column, number(BYTES)))
            given = [load(builder, moved(builder, base, line * n), ROW) for n in range(self.sides)]
            for n, row in enumerate(self.one(given, SHIFTS[0])):
                store(builder, row, moved(builder, base, line * n))

    def rows(self, scratch: Any, targets: list[Any], stride: Any) -> None:
        """Transform all rows, and store 8 levels of each block at a time."""
        builder = self.builder
        with repeated(builder, number(8)) as row:
            base = moved(builder, scratch, builder.mul(row, number(8 * BYTES)))
            given = [load(builder, moved(builder, base, BYTES * n), ROW) for n in range(self.sides)]
            out = self.one(given, SHIFTS[1])
            offset = builder.mul(row, stride)
            middle = constant(I8, [-128] * (2 * LANES))
            packed = [
                builder.xor(self.vectors.signed_bytes(builder, out[n], out[n + 4]), middle)
                for n in range(4)
            ]  # of each 16 bytes: output n of 8 blocks, output n + 4 of 8 blocks
            even, odd = (interleaved(builder, packed[n], packed[n + 2]) for n in range(2))
            left, right = (interleaved(builder, even[n], odd[n]) for n in range(2))
            for half in range(2):  # blocks 4 half to 4 half + 3 of each 8
                fours = [
                    builder.bitcast(part[half], ir.VectorType(I32, 8)) for part in (left, right)
                ]
                for two, both in enumerate(interleaved(builder, *fours)):
                    eights = builder.bitcast(both, ir.VectorType(I64, 4))
                    for lane in range(4):
                        block = 8 * (lane // 2) + 4 * half + 2 * two + lane % 2
                        levels = builder.extract_element(eights, number(lane, I32))
                        store(builder, levels, moved(builder, targets[block], offset))


def twin(begun: Callable[[Any], Transform]) -> Any:
    """Return the intrinsic of the transform that begins with a builder."""

    @intrinsic  # type: ignore[untyped-decorator]
    def transform(
        _context: Any, coefficients: Any, jobs: Any, at: Any, factors: Any, planes: Any,
        stride: Any, scratch: Any,
    ) -> Any:  # fmt: skip
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def begin(place: int, offset: Any = 0) -> Any:
                by = number(offset) if isinstance(offset, int) else offset
                return bytes_at(builder, context, signature.args[place], arguments[place], by)

            coefficients, planes, work = begin(0), begin(4), begin(6)
            lists = begin(1, builder.shl(arguments[2], number(3)))
            factors, stride = begin(3), arguments[5]

            def given(place: int, base: Any, shift: int) -> list[Any]:
                offsets = [
                    load(builder, moved(builder, lists, 16 * n + 8 * place), I64)
                    for n in range(LANES)
                ]
                return [moved(builder, base, builder.shl(o, number(shift))) for o in offsets]

            made = begun(builder)
            made.gather(given(0, coefficients, 1), factors, work)
            made.columns(work)
            made.rows(work, given(1, planes, 0), stride)
            return context.get_dummy_value()

        int64 = types.int64
        return types.none(coefficients, jobs, int64, factors, planes, int64, scratch), build

    return transform


def _twins(vectors: Vectors) -> list[Any]:
    """Return the intrinsics for blocks of 8 by 8 and of 4 by 4 coefficients."""

    def of(sides: int) -> Any:
        return twin(lambda builder: Transform(builder, vectors, sides, tuple(range(sides))))

    return [of(8), of(4)]


transform_full, transform_sparse = _twins(FAST)
portable_full, portable_sparse = _twins(PORTABLE)
