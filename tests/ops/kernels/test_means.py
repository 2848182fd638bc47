"""Weighted means: machine code, NumPy, and what they are by definition."""

from fractions import Fraction

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops.kernels.half import NOT_A_NUMBER
from stoker.ops.kernels.means import Tools

PARTS = (0.0, 1e-9, 0.3, 0.5, 0.823, 1.0 - 2**-17, 1.0)


@pytest.fixture(scope="module", params=[PLAIN, COMPILED], ids=["plain", "machine"])
def tools(request):
    return Tools(arithmetic=request.param)


def blended(tools, a, b, part):
    dst = np.full_like(a, 7)
    tools.blend(a, b, dst, part)
    return dst


@pytest.fixture(scope="module")
def levels():
    """All pairs of levels, (256, 256) twice."""
    a, b = np.divmod(np.arange(65536), 256)
    return a.astype(np.uint8).reshape(256, 256), b.astype(np.uint8).reshape(256, 256)


@pytest.mark.parametrize("part", PARTS)
def test_bytes_are_the_exact_mean_rounded_half_up(tools, levels, part):
    got = blended(tools, *levels, part)
    weight = Fraction(int(Fraction(part) * 65536 + Fraction(1, 2)), 65536)
    exact = [a * weight + b * (1 - weight) for a in (0, 3, 200, 255) for b in (0, 17, 254, 255)]
    rounded = [int(mean + Fraction(1, 2)) for mean in exact]
    assert got[np.ix_((0, 3, 200, 255), (0, 17, 254, 255))].ravel().tolist() == rounded
    true = levels[0] * part + levels[1] * (1 - part)
    assert np.abs(got - true).max() <= 0.5 + 255 * 2**-17 + 1e-9


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("part", PARTS)
def test_floats_are_near_the_exact_mean(tools, dtype, part):
    rng = np.random.default_rng(3)
    a, b = (rng.normal(0, 3, 5000).astype(dtype) for _ in range(2))
    got = blended(tools, a, b, part)
    exact = a.astype(np.longdouble) * part + b.astype(np.longdouble) * (1 - np.longdouble(part))
    scale = np.maximum(np.abs(a), np.abs(b)).astype(np.longdouble)
    least = np.finfo(dtype).smallest_subnormal
    assert (np.abs(got - exact) <= 3 * np.finfo(dtype).eps * scale + least).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_no_number_is_one_nan(tools, dtype):
    one = {"float16": 0x7E00, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}[dtype]
    bits = np.dtype(dtype.replace("float", "uint"))
    a = np.array([np.nan, -np.nan, np.inf, -np.inf, 1, 1] * 20, dtype)
    b = np.array([1, 2, -np.inf, np.inf, -np.nan, np.nan] * 20, dtype)
    assert {*blended(tools, a, b, 0.5).view(bits).tolist()} == {one}


def test_a_part_of_one_is_the_value_itself(tools, levels):
    for dtype in ("uint8", "float16", "float32", "float64"):
        a, b = (array.astype(dtype) for array in levels)
        assert np.array_equal(blended(tools, a, b, 1.0), a)
        assert np.array_equal(blended(tools, a, b, 0.0), b)


def test_every_float16_is_widened_and_rounded_as_numpy_does():
    """All bit patterns, with themselves moved on by one, by machine code and by NumPy's own."""
    bits = np.arange(65536, dtype=np.uint16)
    a, b = bits.view(np.float16), np.roll(bits, 1).view(np.float16)
    for part in (0.25, 0.7):
        got = blended(Tools(arithmetic=COMPILED), a, b, part)
        plain = blended(Tools(arithmetic=PLAIN), a, b, part)
        assert np.array_equal(got.view(np.uint16), plain.view(np.uint16))
        with np.errstate(all="ignore"):
            mean = a.astype(np.float32) * np.float32(part)
            mean = mean + b.astype(np.float32) * np.float32(1 - part)
            expected = mean.astype(np.float16)
        odd = np.isnan(expected)
        assert odd.sum() >= 2046
        assert (got.view(np.uint16)[odd] == NOT_A_NUMBER).all()
        assert np.array_equal(got[~odd].view(np.uint16), expected[~odd].view(np.uint16))


def test_a_number_of_no_sides_is_mixed_too(tools):
    got = blended(tools, np.array(3.0, np.float32), np.array(5.0, np.float32), 0.25)
    assert got == np.float32(4.5)
