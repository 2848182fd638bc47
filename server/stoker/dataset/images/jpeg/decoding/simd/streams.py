"""Entropy decoding of six intervals in one loop: the twin of `decoding.entropy.decode_intervals`.

A stream has its position in the data, `bit`, as the address of a byte times 8; the address `last`
of its last coefficient; and `window`, the bits that come next, from the highest on. The first
lookups of all streams come first, then all second ones: the processor finds independent work.
The only branches are those for long codes and for the end of an interval, and both are rare. A
stream without an interval decodes the first one again, into a slot of its own.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.dataset.images.jpeg.decoding.simd.building import (
    I1,
    I8,
    I16,
    I32,
    I64,
    bytes_at,
    load,
    moved,
    number,
    store,
)
from stoker.dataset.images.jpeg.decoding.sizes import DC_MARK, LOOKUP_BITS, LOOKUPS, STREAMS
from stoker.dataset.images.jpeg.decoding.tables import CODE, OFFSETS, SLOW, SYMBOLS

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic
room: Any = cgutils.alloca_once

PAIR = ir.LiteralStructType([I64, I64])
SLOWLY = "stoker.jpeg.slowly"


def _at(builder: Any, place: Any, kind: Any) -> Any:
    """Load from an address that is a number."""
    return load(builder, builder.inttoptr(place, I8.as_pointer()), kind)


def _put(builder: Any, value: Any, place: Any) -> None:
    store(builder, builder.trunc(value, I16), builder.inttoptr(place, I8.as_pointer()))


def _byte(builder: Any, bits: Any, shift: int) -> Any:
    return builder.and_(builder.lshr(bits, number(shift)), number(255))


def _shifted(builder: Any, bits: Any, by: Any) -> Any:
    """Shift to the left by the lower six bits of a number."""
    return builder.shl(bits, builder.and_(by, number(63)))


def _window(builder: Any, bit: Any) -> Any:
    """Return the next bits of a stream, at least 57."""
    word = builder.bswap(_at(builder, builder.lshr(bit, number(3)), I64))
    return builder.shl(word, builder.and_(bit, number(7)))


def _slowly(module: Any) -> Any:
    """Write the function that decodes one long symbol.

    Its arguments are bit, last, entry, the address of the codes, and the place to which a code that
    does not exist leads; the result is the new bit and last.
    """
    if SLOWLY in module.globals:
        return module.globals[SLOWLY]
    made = ir.Function(module, ir.FunctionType(PAIR, [I64] * 5), SLOWLY)
    made.linkage = "internal"
    made.attributes.add("noinline")
    _LongSymbol(ir.IRBuilder(made.append_basic_block("entry")), made.args).write()
    return made


class _LongSymbol:
    """The code that decodes one long symbol, while it is written."""

    def __init__(self, builder: Any, arguments: Any) -> None:
        self.builder = builder
        self.bit, self.last, self.entry, codes, self.beyond = arguments
        self.window = _window(builder, self.bit)
        code = _byte(builder, self.entry, 32)
        self.own = builder.add(codes, builder.mul(code, number(4 * CODE)))
        self.is_ac = builder.trunc(code, I1)

    def coded(self, index: Any) -> Any:
        """Load a number of the canonical code."""
        place = self.builder.add(self.own, self.builder.shl(index, number(2)))
        return self.builder.sext(_at(self.builder, place, I32), I64)

    def give(self, bit: Any, last: Any) -> None:
        """Return."""
        pair = self.builder.insert_value(ir.Constant(PAIR, ir.Undefined), bit, 0)
        self.builder.ret(self.builder.insert_value(pair, last, 1))

    def finish(self, length: Any, size: Any, step: Any) -> None:
        """Read the value, store it, and return."""
        builder = self.builder
        rest = builder.shl(self.window, length)
        half = builder.lshr(rest, number(1))  # a shift by 64 is not defined
        value = builder.lshr(half, builder.sub(number(63), size))
        low = builder.sub(number(1), builder.shl(number(1), size))
        is_small = builder.icmp_signed(">=", rest, number(0))
        value = builder.add(value, builder.select(is_small, low, number(0)))
        value = builder.add(value, builder.select(self.is_ac, number(0), number(DC_MARK)))
        place = builder.add(self.last, step)
        _put(builder, value, place)
        self.give(builder.add(self.bit, builder.add(length, size)), place)

    def write(self) -> None:
        """Write the function's body."""
        builder, entry = self.builder, self.entry
        known = _byte(builder, entry, 8)
        with builder.if_then(builder.icmp_unsigned("!=", known, number(0))):
            self.finish(known, _byte(builder, entry, 16), _byte(builder, entry, 24))
        bits, length = builder.lshr(self.window, number(48)), number(16)
        for shorter in range(15, LOOKUP_BITS, -1):
            fits = builder.icmp_signed("<", bits, self.coded(number(shorter)))
            length = builder.select(fits, number(shorter), length)
        with builder.if_then(builder.icmp_signed(">=", bits, self.coded(number(16)))):
            self.give(self.bit, self.beyond)
        place = builder.lshr(bits, builder.sub(number(16), length))
        place = builder.add(place, self.coded(builder.add(length, number(OFFSETS))))
        symbol = self.coded(builder.add(builder.and_(place, number(255)), number(SYMBOLS)))
        size = builder.and_(symbol, number(15))
        zeros = builder.select(self.is_ac, builder.lshr(symbol, number(4)), number(0))
        empty = builder.and_(self.is_ac, builder.icmp_unsigned("==", size, number(0)))
        ends = builder.and_(empty, builder.icmp_unsigned("!=", symbol, number(0xF0)))
        with builder.if_then(ends):
            block_end = builder.or_(builder.add(self.last, number(2)), number(126))
            self.give(builder.add(self.bit, length), block_end)
        self.finish(length, size, builder.add(builder.shl(zeros, number(1)), number(2)))


class _Stream:
    """The state of one stream, while its code is written."""

    def __init__(self, loop: Any, turn: int) -> None:
        self.loop, self.turn, builder = loop, turn, loop.builder
        self.bit, self.last, self.window, self.used, self.number = (
            room(builder, I64) for _ in range(5)
        )

    def get(self, place: Any) -> Any:
        return self.loop.builder.load(place)

    def set(self, place: Any, value: Any) -> None:
        self.loop.builder.store(value, place)

    def begin(self, interval: Any, slot: Any) -> None:
        """Take an interval, to be decoded to a slot."""
        loop, builder = self.loop, self.loop.builder
        place = moved(builder, loop.places, builder.shl(interval, number(3)))
        first = builder.shl(loop.plain, number(3))
        self.set(self.bit, builder.add(first, load(builder, place, I64)))
        start = builder.add(loop.coefficients, builder.mul(slot, loop.slot))
        self.set(self.last, builder.sub(start, number(2)))
        self.set(self.number, slot)

    def refill(self) -> None:
        self.set(self.window, _window(self.loop.builder, self.get(self.bit)))
        self.set(self.used, number(0))

    def look(self) -> None:
        """Decode up to two symbols."""
        loop, builder = self.loop, self.loop.builder
        last, window = self.get(self.last), self.get(self.window)
        inside = builder.and_(last, loop.mask)
        table = _at(builder, builder.add(loop.following, builder.shl(inside, number(2))), I64)
        index = builder.lshr(window, number(64 - LOOKUP_BITS))
        entry = _at(builder, builder.add(table, builder.shl(index, number(3))), I64)
        slow = builder.icmp_unsigned("!=", builder.and_(entry, number(SLOW)), number(0))
        with builder.if_else(slow, likely=False) as (rarely, mostly):
            with rarely:
                bit = builder.add(self.get(self.bit), _byte(builder, self.get(self.used), 0))
                slot = builder.and_(last, builder.not_(loop.mask))
                # Before the first coefficient, `last` is in the slot before.
                slot = builder.select(
                    builder.icmp_unsigned("==", inside, builder.sub(loop.mask, number(1))),
                    builder.add(last, number(2)),
                    slot,
                )
                beyond = builder.add(slot, builder.add(loop.end, number(2)))
                found = builder.call(loop.slowly, [bit, last, entry, loop.codes, beyond])
                self.set(self.bit, builder.extract_value(found, 0))
                self.set(self.last, builder.extract_value(found, 1))
                self.refill()
            with mostly:
                self.set(self.window, _shifted(builder, window, entry))
                self.set(self.used, builder.add(self.get(self.used), entry))
                last = builder.add(last, _byte(builder, entry, 8))
                _put(builder, builder.lshr(entry, number(16)), last)
                last = builder.add(last, _byte(builder, entry, 48))
                _put(builder, builder.lshr(entry, number(32)), last)
                self.set(self.last, builder.or_(last, builder.lshr(entry, number(56))))

    def advance(self) -> None:
        builder = self.loop.builder
        self.set(self.bit, builder.add(self.get(self.bit), _byte(builder, self.get(self.used), 0)))

    def renew(self) -> None:
        """If the interval has ended, note where, and take the next one."""
        loop, builder = self.loop, self.loop.builder
        inside = builder.and_(self.get(self.last), loop.mask)
        # Before the first coefficient, the last one of the slot before is the last.
        over = builder.icmp_unsigned(">=", inside, loop.end)
        with builder.if_then(over, likely=False):
            own = self.get(self.number)
            at = moved(builder, loop.ends, builder.shl(own, number(3)))
            first = builder.shl(loop.plain, number(3))
            store(builder, builder.sub(self.get(self.bit), first), at)
            following = builder.load(loop.next)
            is_more = builder.icmp_signed("<", following, loop.count)
            with builder.if_else(is_more) as (then, otherwise):
                with then:
                    self.begin(following, following)
                    builder.store(builder.add(following, number(1)), loop.next)
                with otherwise:
                    was_real = builder.icmp_signed("<", own, loop.count)
                    left = builder.load(loop.left)
                    builder.store(builder.sub(left, builder.zext(was_real, I64)), loop.left)
                    self.begin(number(0), builder.add(loop.count, number(self.turn)))


class _Loop:
    """The part of the code that all streams share, while it is written."""

    def __init__(self, builder: Any, given: dict[str, Any]) -> None:
        self.builder = builder
        self.plain, self.coefficients = given["plain"], given["coefficients"]
        self.following, self.codes = given["following"], given["codes"]
        self.places, self.ends, self.count = given["places"], given["ends"], given["count"]
        self.slot, self.end = given["slot"], given["end"]
        self.mask = builder.sub(self.slot, number(1))
        self.next, self.left = room(builder, I64), room(builder, I64)
        self.slowly = _slowly(builder.module)

    def write(self) -> None:
        builder, streams = self.builder, [_Stream(self, turn) for turn in range(STREAMS)]
        builder.store(number(STREAMS), self.next)
        busy = builder.icmp_signed("<", self.count, number(STREAMS))
        builder.store(builder.select(busy, self.count, number(STREAMS)), self.left)
        for turn, stream in enumerate(streams):
            is_real = builder.icmp_signed("<", number(turn), self.count)
            spare = builder.add(self.count, number(turn))
            interval = builder.select(is_real, number(turn), number(0))
            stream.begin(interval, builder.select(is_real, number(turn), spare))
        body = builder.append_basic_block("turn")
        builder.branch(body)
        builder.position_at_end(body)
        for stream in streams:
            stream.refill()
        for _ in range(LOOKUPS):
            for stream in streams:
                stream.look()
        for stream in streams:
            stream.advance()
        for stream in streams:
            stream.renew()
        after = builder.append_basic_block("done")
        over = builder.icmp_signed("==", builder.load(self.left), number(0))
        builder.cbranch(over, after, body)
        builder.position_at_end(after)


@intrinsic  # type: ignore[untyped-decorator]
def decode_intervals(
    _context: Any, plain: Any, places: Any, count: Any, coefficients: Any, following: Any,
    codes: Any, shape: Any,
) -> Any:  # fmt: skip
    """Decode intervals to their slots, six at a time."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, places, count, _, _, _, shape = arguments

        def begin(place: int) -> Any:
            kind = signature.args[place]
            return bytes_at(builder, context, kind, arguments[place], number(0))

        sides = context.make_array(signature.args[1])(context, builder, places).shape
        row = builder.shl(builder.extract_value(sides, 1), number(3))
        starts = begin(1)
        named = {
            name: builder.ptrtoint(begin(place), I64)
            for name, place in (("plain", 0), ("coefficients", 3), ("following", 4), ("codes", 5))
        }
        slot, end = (builder.extract_value(shape, n) for n in range(2))
        named |= {"places": starts, "ends": moved(builder, starts, row), "count": count}
        _Loop(builder, named | {"slot": slot, "end": end}).write()
        return context.get_dummy_value()

    int64 = types.int64
    three = types.Tuple((int64, int64, shape[2]))
    return types.none(plain, places, int64, coefficients, following, codes, three), build
