"""Levels blended with a constant, through registers and by arithmetic, against NumPy."""

import numpy as np
import pytest

from stoker.jit import compiled, kernel
from stoker.ops.kernels.color import blend_levels, blend_with, fixed, plain_blend
from stoker.ops.kernels.simd.lookup import IN_REGISTERS

FACTORS = (0.0, 0.3, 0.999, 1.0, 1.4, 16.9)


@kernel(twin="stoker.ops.kernels.simd.blends:blend_by_table")
def by_table(image, blocks, factor, rest):
    blend_levels(image, blocks, factor, rest)


@kernel(twin="stoker.ops.kernels.simd.blends:blend_by_sums")
def by_sums(image, blocks, factor, rest):
    blend_levels(image, blocks, factor, rest)


@kernel
def call_by_table(image, blocks, factor, rest):
    by_table(image, blocks, factor, rest)


@kernel
def call_by_sums(image, blocks, factor, rest):
    by_sums(image, blocks, factor, rest)


needs_registers = pytest.mark.skipif(
    not IN_REGISTERS, reason="LLVM ends a process that compiles AVX-512 VBMI for another processor"
)
WAYS = [blend_levels, pytest.param(call_by_table, marks=needs_registers), call_by_sums]


def expected(image, factor, other):
    return plain_blend(image.astype(np.int64), int(fixed(factor)), other).astype(np.uint8)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("call", WAYS)
def test_blocks(noise, call, factor):
    """All levels, and the bytes after the blocks stay."""
    image = np.concatenate([np.arange(256, dtype=np.uint8), noise((100,))])
    for other in (0, 77, 255):
        done, rest = image.copy(), np.int32((65536 - fixed(factor)) * other)
        run = call if call is blend_levels else compiled(call)
        run(done, 5, fixed(factor), rest)
        assert (done[:320] == expected(image[:320], factor, other)).all()
        assert (done[320:] == image[320:]).all()


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_every_length(noise, count):
    image = noise((count,))
    for factor in FACTORS:
        for blend in (blend_with, compiled(blend_with)):
            done = image.copy()
            blend(done, fixed(factor), np.int32(101))
            assert (done == expected(image, factor, 101)).all()
