"""Vector forms of the decoder's kernels, for AVX2 and portable, compute what plain forms do."""

import numpy as np
import pytest

from stoker.dataset.images.jpeg.decoding import color, entropy, tables
from stoker.dataset.images.jpeg.decoding.blocks import is_sparse
from stoker.dataset.images.jpeg.decoding.color import convert_blocks
from stoker.dataset.images.jpeg.decoding.entropy import decode_intervals
from stoker.dataset.images.jpeg.decoding.sampling import widen
from stoker.dataset.images.jpeg.decoding.sizes import ENTRIES, LANES, STREAMS
from stoker.dataset.images.jpeg.decoding.smoothed_rows import convert_pairs, weigh_rows
from stoker.dataset.images.jpeg.decoding.transform import transform_full, transform_sparse
from stoker.dataset.images.jpeg.decoding.unstuffing import copy_32
from stoker.jit import compiled, handwritten, kernel

pytestmark = pytest.mark.slow
simd_transform = pytest.importorskip("stoker.dataset.images.jpeg.decoding.simd.transform")
simd_color = pytest.importorskip("stoker.dataset.images.jpeg.decoding.simd.color")
portable_full, portable_sparse = simd_transform.portable_full, simd_transform.portable_sparse
portable_blocks = simd_color.portable_blocks
portable_pairs = pytest.importorskip(
    "stoker.dataset.images.jpeg.decoding.simd.smoothed_pixels"
).portable_pairs


@kernel
def fast_full(coefficients, jobs, factors, planes, stride, scratch):
    transform_full(coefficients, jobs, 0, factors, planes, stride, scratch)


@kernel
def fast_sparse(coefficients, jobs, factors, planes, stride, scratch):
    transform_sparse(coefficients, jobs, 0, factors, planes, stride, scratch)


@handwritten
def slow_full(coefficients, jobs, factors, planes, stride, scratch):
    portable_full(coefficients, jobs, 0, factors, planes, stride, scratch)


@handwritten
def slow_sparse(coefficients, jobs, factors, planes, stride, scratch):
    portable_sparse(coefficients, jobs, 0, factors, planes, stride, scratch)


@pytest.mark.parametrize("form", [fast_full, slow_full, fast_sparse, slow_sparse])
def test_transforms_wrap_and_clip_like_the_plain_form(form):
    rng, stride = np.random.default_rng(3), 8 * LANES + 40
    for most in (3, 60, 1023, 32767):
        for quantizer in (1, 16, 255):
            coefficients = rng.integers(-most, most + 1, 64 * LANES).astype(np.int16)
            if form in (fast_sparse, slow_sparse):
                coefficients.reshape(LANES, 64)[:, 10:] = 0
            table = rng.integers(1, quantizer + 1, 64).astype(np.int16)
            jobs = np.stack([64 * rng.permutation(LANES), 8 * np.arange(LANES)], 1).reshape(-1)
            given = coefficients, jobs, np.repeat(table, LANES)
            planes = np.zeros((2, 8 * stride), np.uint8)
            with np.errstate(over="ignore"):
                transform_full(*given[:2], 0, given[2], planes[0], stride, None)
            compiled(form)(*given, planes[1], stride, np.zeros(64 * LANES, np.int16))
            assert np.array_equal(*planes), (most, quantizer)


@kernel
def fast_colors(planes, out, blocks):
    convert_blocks(planes, 5, 805, 1607, out, 3, blocks)


@handwritten
def slow_colors(planes, out, blocks):
    portable_blocks(planes, 5, 805, 1607, out, 3, blocks)


@pytest.mark.parametrize("form", [fast_colors, slow_colors])
def test_colors(form):
    rng = np.random.default_rng(4)
    for blocks in (1, 2, 7):
        planes, out = rng.integers(0, 256, 2500).astype(np.uint8), np.zeros((2, 3000), np.uint8)
        convert_blocks(planes, 5, 805, 1607, out[0], 3, blocks)
        compiled(form)(planes, out[1], blocks)
        assert np.array_equal(*out)


def test_factors_of_15_bits_are_those_of_16_for_all_levels():
    """T.871 with 16 fraction bits, as libjpeg's jdcolor.c rounds it."""
    x = np.arange(-128, 128)
    for factor, given in ((1.402, color.RED_OF_CR), (1.772, color.BLUE_OF_CB)):
        expected = (round(factor * 65536) * x + 2**15) >> 16
        assert np.array_equal((2 * x * given + 2**14) >> 15, expected)
    assert round(0.34414 * 65536) == -color.GREEN_OF_CB
    assert round(0.71414 * 65536) == 65536 - color.GREEN_OF_CR


@kernel
def fast_widen(planes, blocks, first, second):
    widen(planes, 70, 300, 600, blocks, (first, second))


def test_rows_of_double_width():
    rng = np.random.default_rng(5)
    for blocks in (1, 3, 9):
        for rounding in ((8, 7), (4, 8)):
            planes = np.tile(rng.integers(0, 256, 1200).astype(np.uint8), (2, 1))
            widen(planes[0], 70, 300, 600, blocks, rounding)
            compiled(fast_widen)(planes[1], blocks, *rounding)
            assert np.array_equal(*planes)


@kernel
def fast_pairs(planes, out, blocks, weights):
    convert_pairs(planes, 5, 800, 1600, weights, out, 3, blocks)


@handwritten
def slow_pairs(planes, out, blocks, weights):
    portable_pairs(planes, 5, 800, 1600, weights, out, 3, blocks)


@kernel
def fast_sums(planes, blocks):
    weigh_rows(planes, 21, 322, 800, blocks)


@pytest.mark.parametrize("form", [fast_pairs, slow_pairs])
def test_pixels_of_smoothed_chroma(form):
    rng = np.random.default_rng(8)
    for blocks in (1, 2, 7):
        for weights in ((-2, 0, 2, 8 - 2048, 7 - 2048), (2, 2, 0, 8 - 2048, 4 - 2048)):
            planes, out = rng.integers(0, 256, 2500).astype(np.uint8), np.zeros((2, 3000), np.uint8)
            planes[700:].view(np.int16)[:] = rng.integers(0, 1021, 900)
            convert_pairs(planes, 5, 800, 1600, weights, out[0], 3, blocks)
            compiled(form)(planes, out[1], blocks, weights)
            assert np.array_equal(*out)


def test_sums_of_two_rows():
    rng = np.random.default_rng(9)
    for blocks in (1, 3, 9):
        planes = np.tile(rng.integers(0, 256, 1200).astype(np.uint8), (2, 1))
        weigh_rows(planes[0], 21, 322, 800, blocks)
        compiled(fast_sums)(planes[1], blocks)
        assert np.array_equal(*planes)


@kernel
def fast_copy(data, at, plain, to):
    return copy_32(data, at, plain, to)


@kernel
def fast_sparseness(coefficients, at):
    return is_sparse(coefficients, at)


def test_short_runs():
    rng = np.random.default_rng(6)
    for _ in range(200):
        data = rng.integers(150, 256, 60).astype(np.uint8)
        data[data == 255] = 254
        data[rng.integers(0, 60, int(rng.integers(0, 3)))] = 255
        plain = np.zeros((2, 50), np.uint8)
        found = copy_32(data, 11, plain[0], 7)
        assert compiled(fast_copy)(data, 11, plain[1], 7) == found
        assert np.array_equal(*plain)
    for place in range(64):
        coefficients = np.zeros(128, np.int16)
        coefficients[32 + place] = -1
        for wanted in (is_sparse(coefficients, 32), place < 10):
            assert compiled(fast_sparseness)(coefficients, 32) == wanted


def random_code(rng, symbols):
    """Return (counts, symbols) of a canonical code that leaves all ones free."""
    while True:
        lengths = rng.integers(2, 17, len(symbols))
        if (2.0**-lengths).sum() < 1 - 2**-16:
            counts = np.bincount(lengths, minlength=17)[1:]
            return bytes(counts.tolist()), bytes(rng.permutation(symbols).tolist())


def filled(form, rng):
    """Fill the tables from random codes by one form."""
    dc = np.arange(12)
    ac = np.array([run << 4 | size for run in range(16) for size in range(1, 11)] + [0, 0xF0])
    body = b"".join(
        bytes([kind]) + b"".join(random_code(rng, rng.permutation(symbols)[:many]))
        for kind, symbols, many in ((0, dc, 12), (16, ac, 60), (1, dc, 9), (17, ac, 40))
    )
    made = np.zeros(tables.TABLES * ENTRIES, np.int64), np.zeros(4 * tables.CODE, np.int32)
    form(np.frombuffer(body, np.uint8), 0, 4, *made, np.zeros(2 * ENTRIES, np.uint32))
    return made


def test_tables_and_streams():
    """Random codes and random data, most of which is damaged, in intervals of two sizes."""
    for seed in range(12):
        made, plain_made = (
            filled(form, np.random.default_rng(seed))
            for form in (compiled(tables.fill_tables), tables.fill_tables)
        )
        assert all(np.array_equal(a, b) for a, b in zip(made, plain_made, strict=True))
        rng, mcus, count = np.random.default_rng(seed), 1 + seed % 3, 1 + seed % 9
        parts, blocks = np.array([[2, 2], [1, 1], [1, 1]]), 6 * mcus
        slot, end = entropy.slot_bytes(blocks), 128 * blocks
        results = []
        plain = rng.integers(0, 256, count * 300 + entropy.bytes_read(blocks)).astype(np.uint8)
        starts = 8 * np.sort(rng.integers(0, count * 300, count))
        for fast in (True, False):
            fill = compiled(entropy.fill_following) if fast else entropy.fill_following
            decode = compiled(streams) if fast else streams
            following = np.zeros(slot // 2, np.int64)
            assert fill(parts, 3, mcus, slot, made[0], following) == blocks
            memory = np.zeros((count + STREAMS + 1) * slot, np.uint8)
            first = -memory.ctypes.data % slot
            values = memory[first : first + (count + STREAMS) * slot].view(np.int16)
            places = np.zeros((2, count + STREAMS), np.int64)
            places[0, :count] = starts
            decode(plain, places, count, values, following, made[1], (slot, end), made[0])
            kept = values.reshape(-1, slot // 2)[:count, : 64 * blocks + 1]
            results.append((kept.copy(), places[1, :count].copy()))
        for a, b in zip(*results, strict=True):
            assert np.array_equal(a, b), seed


@kernel
def streams(plain, places, count, values, following, codes, sizes, table):
    slot, end = sizes
    decode_intervals(plain, places, count, values, following, codes, (slot, end, table))
