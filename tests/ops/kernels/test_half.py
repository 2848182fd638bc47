"""float16 bits: the processor's conversions, integer arithmetic and NumPy give the same."""

import numpy as np
import pytest

from stoker.jit import compiled, kernel
from stoker.ops.kernels.half import (
    NOT_A_NUMBER,
    narrow_run,
    narrowed,
    narrowed_bits,
    to_halves,
    widened,
    widened_bits,
)

PATTERNS = np.arange(65536, dtype=np.uint16)


@kernel
def widen_natively(bits, floats):
    for i in range(np.uint64(bits.size)):
        floats[i] = widened(bits[i])


@kernel
def widen_portably(bits, floats):
    for i in range(np.uint64(bits.size)):
        floats[i] = widened_bits(bits[i])


@kernel
def narrow_portably(floats, start, count, bits, at):
    for i in range(count):
        bits[at + i] = narrowed_bits(floats[start + i])


def made_narrow(run, values):
    bits = np.full(values.size, 1, np.uint16)
    compiled(run)(values, np.uint64(0), np.uint64(values.size), bits, np.uint64(0))
    return bits


@pytest.mark.parametrize("run", [widen_natively, widen_portably])
def test_every_float16_is_widened_as_numpy_does(run):
    floats = np.zeros(65536, np.float32)
    compiled(run)(PATTERNS, floats)
    expected = PATTERNS.view(np.float16).astype(np.float32)
    number = ~np.isnan(expected)
    assert number.sum() == 65536 - 2046
    assert (floats.view(np.uint32)[number] == expected.view(np.uint32)[number]).all()
    assert np.isnan(floats[~number]).all()


def ties():
    """Every finite float16, the middle of each two, and the float32 next to each."""
    halves = PATTERNS[:0x7C00].view(np.float16).astype(np.float32)
    middles = (halves[1:] + halves[:-1]) / 2
    points = np.concatenate([halves, middles, [65519.996, 65520, 65536, 1e9, 3e38, 1e-45]])
    points = points.astype(np.float32)
    around = [points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(3e38))]
    return np.concatenate([*around, *(-part for part in around)])


def random_bits():
    bits = np.random.default_rng(0).integers(0, 2**32, 500_000, dtype=np.uint32)
    return bits.view(np.float32)


@pytest.mark.parametrize("run", [narrow_run, narrow_portably])
@pytest.mark.parametrize("values", [ties(), random_bits()], ids=["ties", "random"])
def test_float32_is_narrowed_as_numpy_does(run, values):
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    expected[np.isnan(values)] = NOT_A_NUMBER
    assert (made_narrow(run, values) == expected).all()
    assert (to_halves(values) == expected).all()


@pytest.mark.parametrize("run", [narrow_run, narrow_portably])
def test_what_is_no_number_has_one_form(run):
    """Quiet and signalling, of both signs, with their lowest and highest bits."""
    words = [0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC01234, 0xFFFFFFFF]
    values = np.array(words, np.uint32).view(np.float32)
    assert (made_narrow(run, values) == 0x7E00).all()
    infinite = np.array([np.inf, -np.inf], np.float32)
    assert made_narrow(run, infinite).tolist() == [0x7C00, 0xFC00]


def test_plain_kernels_are_the_reference():
    for bits in (0, 1, 0x3FF, 0x3C00, 0x7BFF, 0x7C00, 0x8001, 0xFC00):
        value = widened(np.uint16(bits))
        assert value == np.array(bits, np.uint16).view(np.float16)
        assert narrowed(value) == bits
    assert narrowed(np.float32(np.nan)) == NOT_A_NUMBER
