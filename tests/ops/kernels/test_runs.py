"""Runs copied, reversed and normalized at once, against NumPy; twins do what plain forms do."""

import numpy as np
import pytest

from stoker.jit import compiled, kernel
from stoker.ops.kernels.runs import (
    SIXTEEN,
    THIRTY_TWO,
    copy_run,
    exchange16,
    exchange32,
    flat,
    planes16,
    reverse16,
    reverse32,
)

BYTES = 3 * SIXTEEN


@kernel
def call_copy(src, at, dst, to, count):
    copy_run(src, at, dst, to, count)


@kernel
def call_flat(array):
    return flat(array)


@kernel
def call_reverse(src, at, dst, to):
    reverse16(src, at, dst, to)


@kernel
def call_planes(src, at, means, gains, dst, to, plane):
    planes16(
        src, at, (means[0], means[1], means[2]), (gains[0], gains[1], gains[2]), dst, to, plane
    )


@kernel
def call_reverse_values(src, at, dst, to):
    reverse32(src, at, dst, to)


@kernel
def call_exchange(array, left, right):
    exchange16(array, left, right)


@kernel
def call_exchange_values(array, left, right):
    exchange32(array, left, right)


def forms(call):
    return call, compiled(call)


@pytest.mark.parametrize("count", [0, 1, 15, 96, 4097])
@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", "float32"])
def test_a_run_is_copied_and_nothing_else(noise, count, dtype):
    source = (noise((count + 9,), 1) % 2).astype(dtype)
    for form in forms(call_copy):
        painted = np.full(count + 9, 1, dtype)
        expected = painted.copy()
        expected[5 : 5 + count] = source[3 : 3 + count]
        form(source, 3, painted, 5, count)
        assert painted.tobytes() == expected.tobytes()


def test_short_runs_of_every_length_are_copied(noise):
    """Also to a place shortly before theirs, which they overlap."""
    source = noise((300,), 4)
    fast = compiled(call_copy)
    for count in [*range(200), 4095, 4096, 4097]:
        values = noise((count + 80,), 4)
        painted = values.copy()
        fast(source, 7, painted, 3, min(count, 250))
        assert (painted[3 : 3 + min(count, 250)] == source[7 : 7 + min(count, 250)]).all()
        for distance in (1, 16, 63):
            moved, expected = values.copy(), values.copy()
            expected[5 : 5 + count] = values[5 + distance : 5 + distance + count]
            fast(moved, 5 + distance, moved, 5, count)
            assert (moved == expected).all(), (count, distance)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (0, 3, 3)])
def test_flat_is_a_view(shape):
    for form in forms(call_flat):
        array = np.ones(shape, np.float32)
        line = form(array)
        assert line.shape == (array.size,)
        assert np.shares_memory(line, array) == (array.size > 0)


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_sixteen_pixels_are_reversed(noise, dtype):
    source = noise((BYTES + 9,), 2).astype(dtype)
    for form in forms(call_reverse):
        painted = np.full(BYTES + 9, 7, dtype)
        expected = painted.copy()
        expected[4 : 4 + BYTES] = source[5 : 5 + BYTES].reshape(-1, 3)[::-1].reshape(-1)
        form(source, 5, painted, 4)
        assert (painted == expected).all()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_thirty_two_values_are_reversed(noise, dtype):
    source = noise((THIRTY_TWO + 9,), 2).astype(dtype)
    for form in forms(call_reverse_values):
        painted = np.full(THIRTY_TWO + 9, 7, dtype)
        expected = painted.copy()
        expected[4 : 4 + THIRTY_TWO] = source[5 : 5 + THIRTY_TWO][::-1]
        form(source, 5, painted, 4)
        assert (painted == expected).all()


def test_sixteen_pixels_are_normalized(noise):
    """Every level, in every channel: one subtraction and one multiplication of float32."""
    means, gains = np.array([124.5, 0.25, 3.0], np.float32), np.array([0.3, 7.1, 1e-3], np.float32)
    levels = np.stack([(np.arange(256) + shift).astype(np.uint8) for shift in (0, 85, 170)], 1)
    expected = ((levels.astype(np.float32) - means) * gains).T
    for form in forms(call_planes):
        painted = np.full(3 * 300 + 5, 7.0, np.float32)
        for first in range(0, 256, SIXTEEN):
            form(levels.reshape(-1), 3 * first, means, gains, painted, first + 5, 300)
        planes = painted[5:].reshape(3, 300)
        assert planes[:, :256].tobytes() == expected.tobytes()
        assert (planes[:, 256:] == 7).all()
        assert (painted[:5] == 7).all()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize(
    ("call", "count", "pixel"), [(call_exchange, SIXTEEN, 3), (call_exchange_values, THIRTY_TWO, 1)]
)
def test_two_runs_are_exchanged_and_reversed(noise, dtype, call, count, pixel):
    size = count * pixel
    values = noise((3 * size,), 5).astype(dtype)
    left, right = 7, 7 + size + 5
    expected = values.copy()
    for at, of in ((left, right), (right, left)):
        pixels = values[of : of + size].reshape(count, pixel)
        expected[at : at + size] = pixels[::-1].ravel()
    for form in forms(call):
        painted = values.copy()
        form(painted, left, right)
        assert painted.tobytes() == expected.tobytes()
