"""The reduced inverse DCTs of 16 blocks at once: the twins of `decoding.reduced_transform`.

Coefficients are gathered as for the whole transform; then a 1-D transform makes 4 or 2 registers of
those of the rows, or columns, that have a part.
"""

import functools
from typing import Any

from llvmlite import ir

from stoker.dataset.images.jpeg.decoding.reduced_transform import (
    EVEN,
    FIRST_BITS,
    ODD,
    SHIFTS,
    USED,
)
from stoker.dataset.images.jpeg.decoding.simd.building import (
    FAST,
    I8,
    I16,
    I32,
    PORTABLE,
    Vectors,
    constant,
    interleaved,
    load,
    moved,
    number,
    repeated,
    shuffle,
    store,
)
from stoker.dataset.images.jpeg.decoding.simd.transform import BYTES, ROW, Transform, twin
from stoker.dataset.images.jpeg.decoding.sizes import LANES


class _Reduced(Transform):
    """A transform to `out` by `out` samples, while its code is written."""

    def __init__(self, builder: Any, vectors: Vectors, out: int, sides: int) -> None:
        used = tuple(place for place in USED[out] if place < sides)
        super().__init__(builder, vectors, sides, used)
        self.out = out

    def _total(self, x: dict[int, Any], terms: list[tuple[int, int, int, int]]) -> list[Any]:
        """Return the sum of the terms whose inputs are there, as int32."""
        nothing = constant(I16, [0] * LANES)
        parts = (
            self.both(x[a], x.get(b, nothing), [(first, second)])[0]
            for a, b, first, second in terms
            if a in x
        )
        return functools.reduce(self.sums, parts)

    def reduced(self, x: dict[int, Any], shift: int) -> list[Any]:
        """Transform registers by their numbers, as `reduced_transform` does."""
        evens = [self.scaled(x[0], shift, FIRST_BITS[self.out])]
        if EVEN[self.out]:
            even = self._total(x, EVEN[self.out])
            evens = [self.sums(evens[0], even), self.differences(evens[0], even)]
        return self.joined(evens, (self._total(x, terms) for terms in ODD[self.out]), shift)

    def columns(self, scratch: Any) -> None:
        """Transform all columns in place; those without a part have any contents."""
        builder, line = self.builder, 8 * BYTES
        with repeated(builder, number(self.used[-1] + 1)) as column:
            base = moved(builder, scratch, builder.mul(column, number(BYTES)))
            given = {n: load(builder, moved(builder, base, line * n), ROW) for n in self.used}
            for n, row in enumerate(self.reduced(given, SHIFTS[self.out][0])):
                store(builder, row, moved(builder, base, line * n))

    def rows(self, scratch: Any, targets: list[Any], stride: Any) -> None:
        """Transform all rows, and store the levels of each block in a row at a time."""
        builder = self.builder
        with repeated(builder, number(self.out)) as row:
            base = moved(builder, scratch, builder.mul(row, number(8 * BYTES)))
            given = {n: load(builder, moved(builder, base, BYTES * n), ROW) for n in self.used}
            made = self.reduced(given, SHIFTS[self.out][1])
            offset = builder.mul(row, stride)
            levels = self._fours(made) if self.out == 4 else self._twos(made)
            for block, (vector, lane) in enumerate(levels):
                level = builder.extract_element(vector, number(lane, I32))
                store(builder, level, moved(builder, targets[block], offset))

    def _packed(self, a: Any, b: Any) -> Any:
        """Return bytes: of each half those of `a` for 8 blocks, then those of `b`."""
        middle = constant(I8, [-128] * (2 * LANES))
        return self.builder.xor(self.vectors.signed_bytes(self.builder, a, b), middle)

    def _twos(self, made: list[Any]) -> list[tuple[Any, int]]:
        """Return, for each block, the vector and lane that has its two levels."""
        packed = self._packed(*made)
        lanes = [half + n + v for half in (0, LANES) for n in range(8) for v in (0, 8)]
        both = self.builder.bitcast(
            shuffle(self.builder, packed, packed, lanes), ir.VectorType(I16, LANES)
        )
        return [(both, block) for block in range(LANES)]

    def _fours(self, made: list[Any]) -> list[tuple[Any, int]]:
        """Return, for each block, the vector and lane that has its four levels."""
        builder = self.builder
        pairs = interleaved(builder, self._packed(made[0], made[2]), self._packed(made[1], made[3]))
        words = [builder.bitcast(pair, ir.VectorType(I16, LANES)) for pair in pairs]
        fours = [
            builder.bitcast(part, ir.VectorType(I32, LANES // 2))
            for part in interleaved(builder, *words)
        ]
        return [(fours[block // 4 % 2], 4 * (block // 8) + block % 4) for block in range(LANES)]


def _twins(vectors: Vectors) -> list[Any]:
    """Return the intrinsics of 4 by 4 samples, of 2 by 2, and both for sparse blocks."""

    def of(out: int, sides: int) -> Any:
        return twin(lambda builder: _Reduced(builder, vectors, out, sides))

    return [of(4, 8), of(2, 8), of(4, 4), of(2, 4)]


transform_4, transform_2, sparse_4, sparse_2 = _twins(FAST)
portable_4, portable_2, portable_sparse_4, portable_sparse_2 = _twins(PORTABLE)
