"""Compiled twins of `plane_bits`: LLVM operations, on any processor.

`deposit` is one instruction of x86-64 with BMI2, and a loop elsewhere: also on the first two
generations of Zen, where the instruction takes as long as a loop.
"""

from typing import Any

import llvmlite.binding
import numba
import numba.extending
import numpy as np
from llvmlite import ir

from stoker.dataset.images.jpeg.decoding.simd.building import (
    I1,
    I8,
    I16,
    I64,
    bytes_at,
    constant,
    function,
    load,
    moved,
    number,
    store,
)
from stoker.jit.kernels import handwritten
from stoker.jit.processor import has_feature

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic
BLOCK = 64
BYTES = ir.VectorType(I8, BLOCK)
FLAGS = ir.VectorType(I1, BLOCK)
SLOW = ("znver1", "znver2")


def has_fast_deposit() -> bool:
    """Return whether this processor deposits bits in a few cycles, and code is compiled for it."""
    return has_feature("bmi2") and llvmlite.binding.get_host_cpu_name() not in SLOW


@intrinsic  # type: ignore[untyped-decorator]
def next_bits(_context: Any, plain: Any, at: Any) -> Any:
    """Return the 64 bits from a bit on."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        plain, at = arguments
        place = bytes_at(builder, context, signature.args[0], plain, builder.lshr(at, number(3)))
        shift = builder.and_(at, number(7))
        # Two words that overlap: of a word and a byte, LLVM would make a shift of two registers,
        # which is slow on Zen.
        low = builder.lshr(load(builder, place, I64), shift)
        high = load(builder, moved(builder, place, 1), I64)
        return builder.or_(low, builder.shl(high, builder.sub(number(8), shift)))

    return types.uint64(plain, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def few_bits(_context: Any, plain: Any, at: Any) -> Any:
    """Return the 57 bits from a bit on."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        plain, at = arguments
        first = builder.lshr(at, number(3))
        word = load(builder, bytes_at(builder, context, signature.args[0], plain, first), I64)
        return builder.lshr(word, builder.and_(at, number(7)))

    return types.uint64(plain, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def low_bits(_context: Any, bits: Any, count: Any) -> Any:
    """Return the lowest bits, 0 to 63."""

    def build(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits, count = arguments
        one = builder.shl(number(1), builder.and_(count, number(63)))
        return builder.and_(bits, builder.sub(one, number(1)))

    return types.uint64(types.uint64, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def bit_count(_context: Any, bits: Any) -> Any:
    """Count the bits that are set."""

    def build(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), build


@intrinsic  # type: ignore[untyped-decorator]
def deposit_at_once(_context: Any, bits: Any, mask: Any) -> Any:
    """Deposit bits by one instruction."""

    def build(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(I64, [I64, I64])
        return builder.call(function(builder.module, kind, "llvm.x86.bmi.pdep.64"), arguments)

    return types.uint64(types.uint64, types.uint64), build


@handwritten
def deposit_in_turn(bits: Any, mask: Any) -> Any:
    """Deposit one bit after the other."""
    found, one = np.uint64(0), np.uint64(1)
    while mask != np.uint64(0):
        rest = mask & (mask - one)
        found |= (mask ^ rest) & (np.uint64(0) - (bits & one))
        bits >>= one
        mask = rest
    return found


deposit: Any = deposit_at_once if has_fast_deposit() else deposit_in_turn


def _flags(builder: Any, plane: Any) -> Any:
    return builder.bitcast(plane, FLAGS)


def _added(builder: Any, levels: Any, plane: Any, what: Any) -> Any:
    chosen = builder.select(_flags(builder, plane), what, constant(I8, [0] * BLOCK))
    return builder.add(levels, chosen)


@intrinsic  # type: ignore[untyped-decorator]
def begin_block(_context: Any, levels: Any, at: Any, planes: Any, steps: Any, own: Any) -> Any:
    """Write the levels of a block."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        levels, at, planes, steps, own = arguments
        kinds = signature.args
        step = load(builder, bytes_at(builder, context, kinds[3], steps, own), BYTES)
        whats = [constant(I8, [value] * BLOCK) for value in (1, 1, 2, 4)]
        found = constant(I8, [0] * BLOCK)
        for turn, what in enumerate([*whats, step]):
            found = _added(builder, found, builder.extract_value(planes, turn), what)
        store(builder, found, bytes_at(builder, context, kinds[0], levels, at))
        return context.get_dummy_value()

    five = types.UniTuple(types.uint64, 5)
    return types.none(levels, types.int64, five, steps, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def add_plane(_context: Any, levels: Any, at: Any, plane: Any, steps: Any, own: Any) -> Any:
    """Add a unary plane to the levels of a block."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        levels, at, plane, steps, own = arguments
        step = load(builder, bytes_at(builder, context, signature.args[3], steps, own), BYTES)
        place = bytes_at(builder, context, signature.args[0], levels, at)
        store(builder, _added(builder, load(builder, place, BYTES), plane, step), place)
        return context.get_dummy_value()

    return types.none(levels, types.int64, types.uint64, steps, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def end_block(_context: Any, levels: Any, at: Any, signs: Any, coefficients: Any, to: Any) -> Any:
    """Write the coefficients of a block."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        levels, at, signs, coefficients, to = arguments
        place = bytes_at(builder, context, signature.args[0], levels, at)
        found = load(builder, place, BYTES)
        negative = builder.sub(constant(I8, [0] * BLOCK), found)
        found = builder.select(_flags(builder, signs), negative, found)
        target = builder.shl(to, number(1))
        target = bytes_at(builder, context, signature.args[3], coefficients, target)
        store(builder, builder.sext(found, ir.VectorType(I16, BLOCK)), target)
        return context.get_dummy_value()

    kinds = (levels, types.int64, types.uint64, coefficients, types.int64)
    return types.none(*kinds), build
