"""Blends of rows and of pixels: compiled, plain, and on other processors, against sums of int64."""

import ctypes
import importlib
import mmap

import numpy as np
import pytest

from stoker.jit import compiled, kernel

resample = importlib.import_module("stoker.ops.kernels.resample")
sums = importlib.import_module("stoker.ops.kernels.tap_sums")
tables = importlib.import_module("stoker.ops.kernels.tap_tables")
taps = importlib.import_module("stoker.ops.kernels.taps")
blend_rows, blend_columns, blend_row = sums.blend_rows, sums.blend_columns, sums.blend_row
blend_pixels3 = sums.blend_pixels3


@kernel(twin="stoker.ops.kernels.simd.tap_rows:lane_row")
def lane_row(src, places, words, k, count, dst, to, line):
    blend_row(src, places, words, k, count, dst, to, line)


@kernel(twin="stoker.ops.kernels.simd.tap_rows:whole_row")
def whole_row(src, places, words, k, count, dst, to, line):
    blend_row(src, places, words, k, count, dst, to, line)


@kernel(twin="stoker.ops.kernels.simd.tap_columns:lane_pixels3")
def lane_pixels3(src, source, table, dst, to):
    blend_pixels3(src, source, table, dst, to)


@kernel(twin="stoker.ops.kernels.simd.tap_columns:whole_pixels3")
def whole_pixels3(src, source, table, dst, to):
    blend_pixels3(src, source, table, dst, to)


@kernel
def call_lane_row(src, places, words, k, count, dst, to, line):
    lane_row(src, places, words, k, count, dst, to, line)


@kernel
def call_whole_row(src, places, words, k, count, dst, to, line):
    whole_row(src, places, words, k, count, dst, to, line)


@kernel
def call_lane_pixels3(src, source, table, dst, to):
    lane_pixels3(src, source, table, dst, to)


@kernel
def call_whole_pixels3(src, source, table, dst, to):
    whole_pixels3(src, source, table, dst, to)


def table_of(size_in: int, size_out: int, bicubic: int) -> tuple:
    """Return (first, split weights, count)."""
    span = taps.whole_span(size_in)
    count = taps.tap_count(size_in, span, size_out, bicubic)
    first, words = np.zeros(size_out, np.int32), np.zeros(size_out * count, np.int32)
    tables.fill_table(size_in, span, size_out, bicubic, count, first, words, np.zeros(count))
    return first, words, count


def expected(image: np.ndarray, size_out: int, bicubic: int) -> np.ndarray:
    """Resize the first axis, in int64."""
    first, weights = taps.plain_taps(
        image.shape[0], taps.whole_span(image.shape[0]), size_out, bicubic
    )
    total = np.full((size_out, *image.shape[1:]), 1 << 21, np.int64)
    for y, (begin, row) in enumerate(zip(first, weights, strict=True)):
        for k, weight in enumerate(row[: image.shape[0] - begin]):
            total[y] += weight * image[begin + k].astype(np.int64)
    return np.clip(total >> 22, 0, 255)


def extremes(noise, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Noise, and noise of black and white, whose sums are the largest."""
    levels = noise(shape)
    return [levels, np.where(levels > 127, 255, 0).astype(np.uint8)]


SIZES = [(40, 7), (9, 30), (300, 5), (1, 6), (3, 40), (300, 2)]


@pytest.mark.parametrize("bicubic", [0, 1])
@pytest.mark.parametrize(("tall", "size"), SIZES)
def test_rows_of_any_length(noise, tall, size, bicubic):
    table = table_of(tall, size, bicubic)
    for line in (1, 15, 16, 17, 31, 63, 64, 65, 127, 200):
        for image in extremes(noise, (tall, line)):
            wanted = expected(image, size, bicubic).ravel()
            for call in (blend_rows, compiled(blend_rows)):
                got = np.full(size * line + 32, 77, np.uint8)
                source = (np.int64(0), np.int64(line), np.int64(tall - 1))
                call(image.ravel(), source, table, got, line, np.zeros(table[2], np.int64))
                assert (got[: size * line] == wanted).all()
                assert (got[size * line :] == 77).all()


@pytest.mark.parametrize("bicubic", [0, 1])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(("wide", "size"), SIZES)
def test_pixels_of_any_number_of_rows(noise, wide, size, channels, bicubic):
    table = table_of(wide, size, bicubic)
    for rows in (1, 3, 4, 7, 8, 16, 21):
        for image in extremes(noise, (rows, wide, channels)):
            wanted = expected(image.swapaxes(0, 1), size, bicubic).swapaxes(0, 1).ravel()
            spare = np.full(16 * (wide + table[2] + 4), 99, np.uint8)
            source = (np.int64(0), np.int64(wide * channels), np.int64(wide))
            got = np.full(wanted.size + 64, 77, np.uint8)
            run = compiled(blend_columns)
            run(image.ravel(), source, rows, channels, got, table, spare)
            assert (got[: wanted.size] == wanted).all()
            assert (got[wanted.size :] == 77).all()
            if rows in (3, 4):
                blend_columns(image.ravel(), source, rows, channels, got[::1], table, spare)
                assert (got[: wanted.size] == wanted).all()


@pytest.mark.parametrize("bicubic", [0, 1])
@pytest.mark.parametrize("call", [call_lane_row, call_whole_row])
def test_rows_on_other_processors(noise, call, bicubic):
    for image in extremes(noise, (30, 75)):
        first, words, count = table_of(30, 11, bicubic)
        wanted, got = expected(image, 11, bicubic), np.zeros((11, 75), np.uint8)
        for y in range(11):
            places = np.minimum(first[y] + np.arange(count), 29) * 75
            row = (np.int64(y * count), np.int64(count), got.ravel(), np.int64(y * 75))
            compiled(call)(image.ravel(), places, words, *row, np.int64(75))
        assert (got == wanted).all()


@pytest.mark.parametrize("bicubic", [0, 1])
@pytest.mark.parametrize("call", [call_lane_pixels3, call_whole_pixels3])
def test_pixels_on_other_processors(noise, call, bicubic):
    for size in (4, 5, 9, 10, 11, 50):
        for image in extremes(noise, (5, 30, 3)):
            wanted = expected(image[:4].swapaxes(0, 1), size, bicubic).swapaxes(0, 1)
            got, table = np.zeros((4, size, 3), np.uint8), table_of(30, size, bicubic)
            source = (np.int64(0), np.int64(90))
            compiled(call)(image.ravel(), source, table, got.ravel(), np.int64(0))
            assert (got == wanted).all()


def at_the_end_of_memory(image: np.ndarray) -> tuple[np.ndarray, mmap.mmap]:
    """Return a copy of an image behind which no byte may be read, and what holds it."""
    page = mmap.PAGESIZE
    room = (image.nbytes + page - 1) // page * page
    held = mmap.mmap(-1, room + page)
    whole = np.frombuffer(held, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mprotect(ctypes.c_void_p(whole.ctypes.data + room), ctypes.c_size_t(page), 0)
    assert not failed, ctypes.get_errno()
    copy = whole[room - image.nbytes : room].reshape(image.shape)
    copy[...] = image
    return copy, held


@pytest.mark.parametrize("bicubic", [0, 1])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_nothing_behind_the_image_is_read(noise, channels, bicubic):
    """A read there ends the process."""
    for size_in, size in (((40, 50), (30, 37)), ((21, 9), (5, 60)), ((5, 5), (9, 9))):
        image, held = at_the_end_of_memory(noise((*size_in, channels)))
        got = np.zeros((*size, channels), np.uint8)
        need = resample.scratch_bytes(*image.shape, *size, bicubic)
        scratch = np.full(need, 255, np.uint8)
        compiled(resample.resample)(image, (0, 0, *size_in), got, bicubic, scratch)
        assert (got == resample.plain_resample(image, size, bicubic)).all()
        del image, held
