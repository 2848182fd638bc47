"""Tables of one or two symbols, eight entries at a time: the twin of `tables.fill_pairs`."""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.dataset.images.jpeg.decoding.simd.building import (
    I32,
    bytes_at,
    constant,
    load,
    moved,
    number,
    repeated,
    shuffle,
    splat,
    store,
)
from stoker.dataset.images.jpeg.decoding.sizes import ENTRIES, LOOKUP_BITS
from stoker.dataset.images.jpeg.decoding.tables import ENDS, SLOW

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

COUNT = 8
KIND = ir.VectorType(I32, COUNT)
END = 126 << 24


def _all(value: int) -> Any:
    return constant(I32, [value] * COUNT)


class _Entries:
    """Eight entries, while their code is written."""

    def __init__(self, builder: Any, second: Any, limits: list[Any]) -> None:
        self.builder, self.second = builder, second
        self.most, self.together, self.code = limits

    def has(self, entry: Any, bits: int) -> Any:
        builder = self.builder
        return builder.icmp_unsigned("!=", builder.and_(entry, _all(bits)), _all(0))

    def most_of(self, a: Any, b: Any) -> Any:
        return self.builder.icmp_signed("<=", a, b)

    def part(self, entry: Any, shift: int) -> Any:
        """Return seven bits of an entry."""
        return self.builder.and_(self.builder.lshr(entry, _all(shift)), _all(127))

    def following(self, window: Any, length: Any) -> Any:
        """Look up the symbols after those of some length, at most 31 bits."""
        builder = self.builder
        index = builder.shl(window, builder.and_(length, _all(31)))
        index = builder.and_(index, _all(ENTRIES - 1))
        found: Any = ir.Constant(KIND, ir.Undefined)
        for lane in range(COUNT):
            at = builder.extract_element(index, number(lane, I32))
            place = builder.zext(builder.shl(at, number(2, I32)), number(0).type)
            entry = load(builder, moved(builder, self.second, place), I32)
            found = builder.insert_element(found, entry, number(lane, I32))
        return found

    def words(self, one: Any, window: Any) -> tuple[Any, Any]:
        """Return the lower and upper halves of the entries that begin with single symbols."""
        builder = self.builder
        both, chosen = builder.and_, builder.select
        length, step = self.part(one, 0), self.part(one, 8)
        two = self.following(window, length)
        total = builder.add(length, self.part(two, 0))
        follows = both(builder.not_(self.has(one, SLOW | ENDS)), self.most_of(step, self.most))
        follows = both(follows, builder.not_(self.has(two, SLOW)))
        follows = both(follows, self.most_of(total, _all(LOOKUP_BITS)))
        ends = both(follows, self.has(two, ENDS))
        step2 = self.part(two, 8)
        fits = self.most_of(builder.add(step, step2), self.together)
        pair = both(both(follows, builder.not_(self.has(two, ENDS))), fits)
        three = self.following(window, total)
        rest = builder.add(total, self.part(three, 0))
        last = both(self.has(three, ENDS), builder.not_(self.has(three, SLOW)))
        last = both(both(pair, last), self.most_of(rest, _all(LOOKUP_BITS)))
        length = chosen(builder.or_(ends, pair), total, length)
        length = chosen(last, rest, length)
        low = builder.or_(both(one, _all(~(ENDS | 127) & 0xFFFFFFFF)), length)
        values = builder.lshr(two, _all(16))
        values = builder.or_(values, builder.shl(step2, _all(16)))
        high = chosen(pair, values, builder.lshr(one, _all(16)))
        over = builder.or_(builder.or_(ends, last), self.has(one, ENDS))
        high = builder.or_(high, chosen(over, _all(END), _all(0)))
        slow = self.has(one, SLOW)
        return chosen(slow, one, low), chosen(slow, self.code, high)


@intrinsic  # type: ignore[untyped-decorator]
def fill_pairs(_context: Any, first: Any, second: Any, tables: Any, at: Any, limits: Any) -> Any:
    """Fill a table of one or two symbols."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second, tables, at, limits = arguments
        singles = bytes_at(builder, context, signature.args[0], first, number(0))
        others = bytes_at(builder, context, signature.args[1], second, number(0))
        to = bytes_at(builder, context, signature.args[2], tables, builder.shl(at, number(3)))
        given = [
            splat(builder, builder.trunc(builder.extract_value(limits, n), I32), COUNT)
            for n in range(3)
        ]
        entries = _Entries(builder, others, given)
        with repeated(builder, number(ENTRIES // COUNT)) as turn:
            begun = builder.trunc(builder.mul(turn, number(COUNT)), I32)
            window = builder.add(splat(builder, begun, COUNT), constant(I32, list(range(COUNT))))
            place = moved(builder, singles, builder.mul(turn, number(4 * COUNT)))
            low, high = entries.words(load(builder, place, KIND), window)
            for half in range(2):
                lanes = [half * 4 + n + v for n in range(4) for v in (0, COUNT)]
                into = builder.add(builder.mul(turn, number(8 * COUNT)), number(32 * half))
                store(builder, shuffle(builder, low, high, lanes), moved(builder, to, into))
        return context.get_dummy_value()

    int64 = types.int64
    return types.none(first, second, tables, int64, types.UniTuple(int64, 3)), build
