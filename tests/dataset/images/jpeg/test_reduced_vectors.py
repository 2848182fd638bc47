"""Reduced transforms in vector forms, for AVX2 and portable, compute what plain forms do."""

import numpy as np
import pytest

from stoker.dataset.images.jpeg.decoding.reduced_transform import (
    only_levels,
    sparse_2,
    sparse_4,
    transform_2,
    transform_4,
)
from stoker.dataset.images.jpeg.decoding.sizes import LANES
from stoker.jit import compiled, handwritten, kernel

pytestmark = pytest.mark.slow
simd = pytest.importorskip("stoker.dataset.images.jpeg.decoding.simd.reduced")
portable_4, portable_sparse_4 = simd.portable_4, simd.portable_sparse_4
portable_2, portable_sparse_2 = simd.portable_2, simd.portable_sparse_2


@kernel
def fast(side, sparse, coefficients, jobs, factors, planes, stride, scratch):
    if side == 4 and sparse:
        sparse_4(coefficients, jobs, 0, factors, planes, stride, scratch)
    elif side == 4:
        transform_4(coefficients, jobs, 0, factors, planes, stride, scratch)
    elif sparse:
        sparse_2(coefficients, jobs, 0, factors, planes, stride, scratch)
    else:
        transform_2(coefficients, jobs, 0, factors, planes, stride, scratch)


@handwritten
def portable(side, sparse, coefficients, jobs, factors, planes, stride, scratch):
    if side == 4 and sparse:
        portable_sparse_4(coefficients, jobs, 0, factors, planes, stride, scratch)
    elif side == 4:
        portable_4(coefficients, jobs, 0, factors, planes, stride, scratch)
    elif sparse:
        portable_sparse_2(coefficients, jobs, 0, factors, planes, stride, scratch)
    else:
        portable_2(coefficients, jobs, 0, factors, planes, stride, scratch)


@pytest.mark.parametrize("form", [fast, portable])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("side", [4, 2])
def test_transforms_wrap_and_clip_like_the_plain_form(form, side, sparse):
    rng, stride = np.random.default_rng(3), side * LANES + 40
    for most in (3, 60, 1023, 32767):
        for quantizer in (1, 16, 255):
            coefficients = rng.integers(-most, most + 1, 64 * LANES).astype(np.int16)
            if sparse:
                coefficients.reshape(LANES, 64)[:, 10:] = 0
            table = rng.integers(1, quantizer + 1, 64).astype(np.int16)
            jobs = np.stack([64 * rng.permutation(LANES), side * np.arange(LANES)], 1).reshape(-1)
            given = coefficients, jobs, np.repeat(table, LANES)
            planes = np.zeros((2, side * stride), np.uint8)
            with np.errstate(over="ignore"):
                fast(side, sparse, *given, planes[0], stride, None)
            scratch = rng.integers(-32768, 32767, 64 * LANES).astype(np.int16)
            compiled(form)(side, sparse, *given, planes[1], stride, scratch)
            assert np.array_equal(*planes), (most, quantizer)


def test_one_sample_of_a_block_is_libjpegs_for_every_dc():
    """jpeg_idct_1x1: a table of 1,024 levels, indexed by DC in eighths, rounded."""
    table = np.clip(((np.arange(1024) + 512) % 1024) - 512 + 128, 0, 255)
    coefficients = np.arange(-2048, 2048, dtype=np.int16)
    jobs = np.stack([np.arange(4096), np.arange(4096)], 1).reshape(-1)
    for factor in (1, 3, 16, 255):
        planes, factors = np.zeros(4096, np.uint8), np.full(64 * LANES, factor, np.int16)
        compiled(only_levels)(coefficients, jobs, 0, jobs.size, factors, planes)
        expected = table[((coefficients.astype(int) * factor + 4) >> 3) & 1023]
        assert np.array_equal(planes, expected)
