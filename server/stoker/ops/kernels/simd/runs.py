"""Runs of values and of pixels that are handled at once: the twins of `stoker.ops.kernels.runs`.

For a loop over a run of unknown length LLVM makes vectors for long runs and single values for the
rest, which is most of a short row; and it splits pixels of three bytes lane by lane. Nothing
is checked here: the callers stay inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils
from numba.core import imputils as untyped_imputils
from numba.np import arrayobj as untyped_arrayobj

from stoker.ops.kernels.simd.blocks import at as address
from stoker.ops.kernels.simd.blocks import load, shuffle, store
from stoker.ops.kernels.simd.vectors import splat

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic
move: Any = cgutils.raw_memmove
arrayobj: Any = untyped_arrayobj
imputils: Any = untyped_imputils

WORD = ir.IntType(64)
BYTE = ir.IntType(8)
LINE = 64
LONG = 4097
"""Bytes from which memmove is at least as fast."""
SIXTEEN = 16
THIRTY_TWO = 32


def _copy_short(builder: Any, target: Any, source: Any, count: Any, size: int) -> None:
    """Copy bytes, at least `size`, in blocks of that size; the last overlaps the previous one.

    The last one is read first: bytes may be moved to an overlapping place before their own.
    """
    last = builder.sub(count, ir.Constant(WORD, size))
    tail = load(builder, builder.gep(source, [last]), size)
    before = builder.add(last, ir.Constant(WORD, size - 1))
    with cgutils.for_range(builder, builder.udiv(before, ir.Constant(WORD, size))) as loop:
        start = builder.mul(loop.index, ir.Constant(WORD, size))
        block = load(builder, builder.gep(source, [start]), size)
        store(builder, block, builder.gep(target, [start]))
    store(builder, tail, builder.gep(target, [last]))


def _copy_bytes(builder: Any, target: Any, source: Any, count: Any) -> None:
    """Copy bytes; for a short run, a call of memmove would take longer."""
    target, source = (builder.bitcast(place, BYTE.as_pointer()) for place in (target, source))

    def at_least(size: int) -> Any:
        return builder.icmp_unsigned(">=", count, ir.Constant(WORD, size))

    short = builder.and_(at_least(SIXTEEN), builder.not_(at_least(LONG)))
    with builder.if_else(short) as (then, otherwise):
        with then, builder.if_else(at_least(LINE)) as (wide, narrow):
            with wide:
                _copy_short(builder, target, source, count, LINE)
            with narrow:
                _copy_short(builder, target, source, count, SIXTEEN)
        with otherwise:
            move(builder, target, source, count, ir.Constant(WORD, 1))


@intrinsic  # type: ignore[untyped-decorator]
def flat(_context: Any, array: Any) -> Any:
    """The values of a contiguous array as a flat array; numba's reshape would call a function."""
    if not isinstance(array, types.Array) or array.layout != "C":
        return None
    line = array.copy(ndim=1)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(array)(context, builder, arguments[0])
        made = context.make_array(line)(context, builder)
        sides = {"shape": [given.nitems], "strides": [given.itemsize]}
        shared = {"data": given.data, "itemsize": given.itemsize, "meminfo": given.meminfo}
        arrayobj.populate_array(made, **sides, **shared, parent=given.parent)
        return imputils.impl_ret_borrowed(context, builder, line, made._getvalue())

    return line(array), build


@intrinsic  # type: ignore[untyped-decorator]
def copy_run(_context: Any, src: Any, start: Any, dst: Any, to: Any, count: Any) -> Any:
    """Copy contiguous values."""
    if src.dtype != dst.dtype or (src.ndim, dst.ndim) != (1, 1):
        return None

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, start, b, to, count = arguments
        source = address(builder, context, signature.args[0], a, start)
        target = address(builder, context, signature.args[2], b, to)
        size = context.get_abi_sizeof(context.get_data_type(src.dtype))
        total = builder.mul(count, ir.Constant(WORD, size))
        _copy_bytes(builder, target, source, total)
        return context.get_dummy_value()

    return types.none(src, types.int64, dst, types.int64, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def reverse32(_context: Any, src: Any, start: Any, dst: Any, to: Any) -> Any:
    """Write thirty-two values in reverse order."""
    if src.dtype != dst.dtype or (src.ndim, dst.ndim) != (1, 1):
        return None

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, start, b, to = arguments
        values = load(builder, address(builder, context, signature.args[0], a, start), THIRTY_TWO)
        mirrored = shuffle(builder, values, values, list(reversed(range(THIRTY_TWO))))
        store(builder, mirrored, address(builder, context, signature.args[2], b, to))
        return context.get_dummy_value()

    return types.none(src, types.int64, dst, types.int64), build


def _thirds(builder: Any, source: Any) -> list[Any]:
    """Load 48 elements as three vectors."""
    return [
        load(builder, builder.gep(source, [ir.Constant(WORD, SIXTEEN * n)]), SIXTEEN)
        for n in range(3)
    ]


def _picked(builder: Any, thirds: list[Any], lanes: list[int]) -> Any:
    """Pick sixteen of 48 lanes."""
    first = [min(lane, 2 * SIXTEEN - 1) for lane in lanes]
    both = shuffle(builder, thirds[0], thirds[1], first)
    later = [place if lane < 2 * SIXTEEN else lane - SIXTEEN for place, lane in enumerate(lanes)]
    return shuffle(builder, both, thirds[2], later)


@intrinsic  # type: ignore[untyped-decorator]
def reverse16(_context: Any, src: Any, start: Any, dst: Any, to: Any) -> Any:
    """Write sixteen pixels of three values in reverse order."""
    if src.dtype != dst.dtype or (src.ndim, dst.ndim) != (1, 1):
        return None

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, start, b, to = arguments
        target = address(builder, context, signature.args[2], b, to)
        source = address(builder, context, signature.args[0], a, start)
        for n, third in enumerate(_reversed16(builder, source)):
            store(builder, third, builder.gep(target, [ir.Constant(WORD, SIXTEEN * n)]))
        return context.get_dummy_value()

    return types.none(src, types.int64, dst, types.int64), build


def _exchange(mirrored: Any) -> Any:
    """Return the intrinsic that exchanges two runs; `mirrored` loads one, reversed, as vectors."""

    @intrinsic  # type: ignore[untyped-decorator]
    def exchange(_context: Any, array: Any, left: Any, right: Any) -> Any:
        if array.ndim != 1:
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values, *starts = arguments
            places = [address(builder, context, signature.args[0], values, at) for at in starts]
            runs = [mirrored(builder, place) for place in places]
            for place, run in zip(reversed(places), runs, strict=True):
                for n, vector in enumerate(run):
                    to = ir.Constant(WORD, vector.type.count * n)
                    store(builder, vector, builder.gep(place, [to]))
            return context.get_dummy_value()

        return types.none(array, types.int64, types.int64), build

    return exchange


def _reversed32(builder: Any, place: Any) -> list[Any]:
    values = load(builder, place, THIRTY_TWO)
    return [shuffle(builder, values, values, list(reversed(range(THIRTY_TWO))))]


def _reversed16(builder: Any, place: Any) -> list[Any]:
    thirds = _thirds(builder, place)
    order = [3 * (SIXTEEN - 1 - pixel) + c for pixel in range(SIXTEEN) for c in range(3)]
    return [_picked(builder, thirds, order[n : n + SIXTEEN]) for n in range(0, 48, SIXTEEN)]


exchange32, exchange16 = _exchange(_reversed32), _exchange(_reversed16)


@intrinsic  # type: ignore[untyped-decorator]
def planes16(
    _context: Any, src: Any, start: Any, means: Any, gains: Any, dst: Any, to: Any, plane: Any
) -> Any:
    """Normalize sixteen pixels of three bytes into three planes."""
    halves = dst.dtype == types.uint16  # a kernel of halves has such a call but never reaches it
    if src.dtype != types.uint8 or not (halves or dst.dtype == types.float32):
        return None
    three = types.UniTuple(types.float32, 3)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, start, means, gains, b, to, plane = arguments
        thirds = _thirds(builder, address(builder, context, signature.args[0], a, start))
        floats = ir.VectorType(ir.FloatType(), SIXTEEN)
        wide = ir.VectorType(ir.IntType(32), SIXTEEN)
        for c in range(3):
            levels = _picked(builder, thirds, [3 * place + c for place in range(SIXTEEN)])
            values = builder.sitofp(builder.zext(levels, wide), floats)
            mean = splat(builder, builder.extract_value(means, c), SIXTEEN)
            gain = splat(builder, builder.extract_value(gains, c), SIXTEEN)
            done = builder.fmul(builder.fsub(values, mean), gain)
            if halves:
                done = builder.fptoui(done, ir.VectorType(ir.IntType(16), SIXTEEN))
            store(builder, done, address(builder, context, signature.args[4], b, to))
            to = builder.add(to, plane)
        return context.get_dummy_value()

    given = (src, types.int64, three, three, dst, types.int64, types.int64)
    return types.none(*given), build
