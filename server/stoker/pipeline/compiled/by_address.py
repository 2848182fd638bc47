"""Memory and functions by their addresses, for the loop; numba has no syntax for these.

A compiled draw or kernel is called through the address of its machine code. The provider of the
address knows the types it was compiled for (`compiled.machine`); here only the form of the call
matters, which is the same for all dtypes: an array is passed as its address, sides and strides, a
record as its address. Imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic as untyped_intrinsic
from numba.np.arrayobj import populate_array as untyped_populate_array

from stoker.jit import handwritten
from stoker.pipeline.compiled.loop_instructions import ELEMENTS
from stoker.pipeline.planning.op_declarations import MAX_RANK

cgutils: Any = untyped_cgutils
intrinsic: Callable[[Callable[..., Any]], Any] = untyped_intrinsic
populate_array: Any = untyped_populate_array
_tuple: Any = types.UniTuple

LINE_BYTES = 64
"""Bytes of a line of the processor's cache."""
_TO_READ, _SECOND_LEVEL, _DATA = 0, 2, 1
_WORD = ir.IntType(64)
_BYTE = ir.IntType(8)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _array(context: Any, builder: Any, rank: int, line: Any, item: Any) -> Any:
    """Make an array from a line of the value table; its element type is not known here."""
    words = _pointer(builder, line, _WORD)

    def word(place: int) -> Any:
        return builder.load(builder.gep(words, [_WORD(place)]))

    made = context.make_array(types.Array(types.uint8, rank, "C"))(context, builder)
    shape = [word(1 + axis) for axis in range(rank)]
    strides: list[Any] = []
    step = item
    for side in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, side)
    data = _pointer(builder, word(0), _BYTE)
    populate_array(made, data=data, shape=shape, strides=strides, itemsize=item, meminfo=None)
    return made._getvalue()


def _room(context: Any, builder: Any, address: Any, size: Any, unit: Any) -> Any:
    """Make an array with one side."""
    made = context.make_array(_BYTES)(context, builder)
    data = _pointer(builder, address, _BYTE)
    populate_array(made, data=data, shape=[size], strides=[unit], itemsize=unit, meminfo=None)
    return made._getvalue()


_SOME = from_dtype(np.dtype([("none", "u1")]))
"""Placeholder for every record: all are passed by their address."""


def _call(context: Any, builder: Any, address: Any, given: tuple[Any, ...], args: Any) -> None:
    """Call a compiled function that returns nothing; its exceptions propagate."""
    convention = context.call_conv
    kind = convention.get_function_type(types.none, given)
    function = _pointer(builder, address, kind)
    status, _ = convention.call_function(builder, function, types.none, given, args)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)


_BYTES = types.Array(types.uint8, 1, "C")
_PAIR = _tuple(types.int64, 2)
_TRIPLE = _tuple(types.int64, 3)


def _call_with_ranks(
    context: Any, builder: Any, function: Any, ranks: Any, arrays: tuple[Any, Any],
    turn: tuple[Any, ...], rest: tuple[Any, Any],
) -> Any:  # fmt: skip
    """Call a kernel or fold; the form of a call depends on the ranks of its arrays."""
    src, dst = (cgutils.unpack_tuple(builder, array) for array in arrays)
    parts, last = (cgutils.unpack_tuple(builder, pair) for pair in rest)
    record = context.get_value_type(_SOME)
    after = builder.append_basic_block("called")
    choice = builder.switch(ranks, after)
    for one in range(1, MAX_RANK + 1):
        for other in range(1, MAX_RANK + 1):
            block = builder.append_basic_block(f"ranks.{one}.{other}")
            choice.add_case(_WORD(8 * one + other), block)
            builder.position_at_end(block)
            views = [types.Array(types.uint8, rank, "C") for rank in (one, other)]
            given = (views[0], *[types.int64] * len(turn), views[1], _SOME, _SOME, _BYTES)
            values = (
                _array(context, builder, one, *src),
                *turn,
                _array(context, builder, other, *dst),
                *(builder.inttoptr(part, record) for part in parts),
                _room(context, builder, *last),
            )
            _call(context, builder, function, given, values)
            builder.branch(after)
    builder.position_at_end(after)
    return context.get_dummy_value()


@intrinsic
def _call_kernel(
    typingctx: Any, function: Any, ranks: Any, src: Any, dst: Any, parts: Any, last: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function, ranks, src, dst, *rest = args
        return _call_with_ranks(context, builder, function, ranks, (src, dst), (), tuple(rest))

    return types.none(types.int64, types.int64, _PAIR, _PAIR, _PAIR, _TRIPLE), codegen


@intrinsic
def _call_fold(
    typingctx: Any, function: Any, ranks: Any, src: Any, turn: Any, dst: Any, parts: Any, last: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function, ranks, src, turn, dst, *rest = args
        turns = tuple(cgutils.unpack_tuple(builder, turn))
        return _call_with_ranks(context, builder, function, ranks, (src, dst), turns, tuple(rest))

    return types.none(types.int64, types.int64, _PAIR, _PAIR, _PAIR, _PAIR, _TRIPLE), codegen


@handwritten
def call_kernel(function, ranks, src, dst, parts, last):  # type: ignore[no-untyped-def]
    """Call `function(src, dst, params, record, last)`.

    Args:
        function: its address.
        ranks: 8 times the rank of the source plus that of the destination.
        src: address of a line of the value table, and bytes of an element.
        dst: the same for the destination.
        parts: addresses of parameters and record.
        last: address, elements and bytes of an element of the last argument.
    """
    _call_kernel(function, ranks, src, dst, parts, last)


@handwritten
def call_fold(function, ranks, src, turn, dst, parts, last):  # type: ignore[no-untyped-def]
    """Call `function(src, place, count, dst, params, record, scratch)`.

    Args:
        function: its address.
        ranks: as for `call_kernel`, as are src, dst, parts and last.
        src: one value of the fold.
        turn: its index among the values, and their number.
        dst: the result of all of them.
        parts: parameters and record.
        last: scratch, the same for all values.
    """
    _call_fold(function, ranks, src, turn, dst, parts, last)


@intrinsic
def _call_draw(typingctx: Any, function: Any, key: Any, size: Any, parts: Any) -> Any:
    given = (_tuple(types.uint64, 5), _SOME, types.int64, types.int64, _SOME)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function, key, size, parts = args
        height, width = cgutils.unpack_tuple(builder, size)
        kind = context.get_value_type(_SOME)
        params, record = (
            builder.inttoptr(part, kind) for part in cgutils.unpack_tuple(builder, parts)
        )
        _call(context, builder, function, given, (key, params, height, width, record))
        return context.get_dummy_value()

    return types.none(types.int64, given[0], _PAIR, _PAIR), codegen


@handwritten
def call_draw(function, key, size, parts):  # type: ignore[no-untyped-def]
    """Call `function(key, params, height, width, record)`.

    Args:
        function: its address.
        key: five uint64.
        size: height and width.
        parts: addresses of parameters and record.
    """
    _call_draw(function, key, size, parts)


def _element(name: str) -> Any:
    """Return the LLVM type of an element in memory."""
    if name == "float32":
        return ir.FloatType()
    return _WORD if name == "float64" else ir.IntType(8 * np.dtype(name).itemsize)


@intrinsic
def _load_word(typingctx: Any, address: Any, dtype: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, dtype = args
        after = builder.append_basic_block("loaded")
        nothing = builder.append_basic_block("no_such_dtype")
        choice = builder.switch(dtype, nothing)
        found = []
        for code, name in enumerate(ELEMENTS):
            block = builder.append_basic_block(name)
            choice.add_case(_WORD(code), block)
            builder.position_at_end(block)
            read = builder.load(_pointer(builder, address, _element(name)), align=1)
            if name == "float32":
                read = builder.bitcast(builder.fpext(read, ir.DoubleType()), _WORD)
            elif read.type != _WORD:
                widen = builder.sext if name.startswith("int") else builder.zext
                read = widen(read, _WORD)
            found.append((read, block))
            builder.branch(after)
        builder.position_at_end(nothing)
        builder.branch(after)
        builder.position_at_end(after)
        word = builder.phi(_WORD)
        for read, block in [*found, (_WORD(0), nothing)]:
            word.add_incoming(read, block)
        return word

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _store_word(typingctx: Any, address: Any, dtype: Any, word: Any, is_float: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, dtype, word, is_float = args
        from_float = builder.icmp_signed("!=", is_float, _WORD(0))
        double = builder.bitcast(word, ir.DoubleType())
        whole = builder.select(from_float, builder.fptosi(double, _WORD), word)
        wide = builder.select(from_float, double, builder.sitofp(word, ir.DoubleType()))
        after = builder.append_basic_block("stored")
        choice = builder.switch(dtype, after)
        for code, name in enumerate(ELEMENTS):
            block = builder.append_basic_block(name)
            choice.add_case(_WORD(code), block)
            builder.position_at_end(block)
            kind = _element(name)
            if name == "bool":
                value = builder.zext(builder.icmp_signed("!=", whole, _WORD(0)), kind)
            elif name == "float32":
                single = builder.sitofp(word, kind)
                value = builder.select(from_float, builder.fptrunc(double, kind), single)
            elif name == "float64":
                value = builder.bitcast(wide, _WORD)
            else:
                value = whole if kind == _WORD else builder.trunc(whole, kind)
            builder.store(value, _pointer(builder, address, kind), align=1)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    word_type = types.int64
    return types.none(*[word_type] * 4), codegen


@intrinsic
def _show_word(typingctx: Any, address: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, word = args
        builder.store(word, _pointer(builder, address, _WORD))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), codegen


@intrinsic
def _copy_bytes(typingctx: Any, dst: Any, src: Any, size: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        dst, src, size = args
        cgutils.raw_memcpy(
            builder, _pointer(builder, dst, _BYTE), _pointer(builder, src, _BYTE), size, 1
        )
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), codegen


@intrinsic
def _prefetch(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flag = ir.IntType(32)
        place = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [place, flag, flag, flag])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [place], kind)
        flags = (flag(_TO_READ), flag(_SECOND_LEVEL), flag(_DATA))
        builder.call(fetch, [_pointer(builder, args[0], _BYTE), *flags])
        return context.get_dummy_value()

    return types.none(types.int64), codegen


@intrinsic
def _as_float(typingctx: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def _as_word(typingctx: Any, number: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _WORD)

    return types.int64(types.float64), codegen


@intrinsic
def _read_clock(typingctx: Any, function: Any, clock: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function, clock = args
        number = ir.IntType(32)
        time = cgutils.alloca_once(builder, ir.ArrayType(_WORD, 2))
        kind = ir.FunctionType(number, [number, time.type])
        builder.call(_pointer(builder, function, kind), [builder.trunc(clock, number), time])
        whole, rest = (
            builder.load(cgutils.gep_inbounds(builder, time, 0, place)) for place in (0, 1)
        )
        return builder.add(builder.mul(whole, _WORD(10**9)), rest)

    return types.int64(types.int64, types.int64), codegen


@handwritten
def read_clock(function, clock):  # type: ignore[no-untyped-def]
    """Read a clock of the system by the address of `clock_gettime`; nanoseconds."""
    return _read_clock(function, clock)


@handwritten
def show_word(address, word):  # type: ignore[no-untyped-def]
    """Write an int64 to an address that another process reads."""
    _show_word(address, word)


@handwritten
def load_word(address, dtype):  # type: ignore[no-untyped-def]
    """Read a number at an address as a word: an int64, or the bits of a float64."""
    return _load_word(address, dtype)


@handwritten
def store_word(address, dtype, word, is_float):  # type: ignore[no-untyped-def]
    """Write a word to an address as a number of a dtype; `is_float` gives the word's type."""
    _store_word(address, dtype, word, is_float)


@handwritten
def copy_bytes(dst, src, size):  # type: ignore[no-untyped-def]
    """Copy bytes between two addresses that do not overlap."""
    _copy_bytes(dst, src, size)


@handwritten
def prefetch(address, size):  # type: ignore[no-untyped-def]
    """Prefetch bytes into the second-level cache without waiting; it never faults.

    The first level can have too few lines in flight: prefetching into it gains nothing.
    """
    for place in range(0, size, LINE_BYTES):
        _prefetch(address + place)


@handwritten
def as_float(word):  # type: ignore[no-untyped-def]
    """Return the float64 whose bits a word holds."""
    return _as_float(word)


@handwritten
def as_word(number):  # type: ignore[no-untyped-def]
    """Return the bits of a float64."""
    return _as_word(number)
