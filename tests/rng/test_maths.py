"""exp, log, sin, cos: right to 1 ulp against mpmath, the same bits plain and compiled, no libm."""

import math
import re
from pathlib import Path

import mpmath
import numba
import numpy as np
import pytest
from bits import same_bits
from machine_code import violations

from stoker.jit import compiled, kernel
from stoker.protocol.errors import UsageError
from stoker.rng import draws, maths, normals, streams
from stoker.rng.bits import bits_float, float_bits
from stoker.rng.maths import sqrt as maths_sqrt
from stoker.rng.philox import key_block

RNG = np.random.default_rng(2024)
QUARTERS = [n * math.pi / 2 for n in (*range(-40, 41), *range(1, 2**19, 9973), 2**19)]
SAMPLES = {
    "exp": [
        *RNG.uniform(-708.39, 709.78, 3000),
        *RNG.uniform(-1, 1, 2000),
        *(n * math.log(2) / 2 for n in range(-2040, 2046, 7)),
        maths.EXP_LOWEST,
        maths.EXP_HIGHEST,
        1e-300,
        -1e-20,
        0.0,
    ],
    "log": [
        *np.exp(RNG.uniform(-740, 709, 3000)),
        *RNG.uniform(0.5, 2, 3000),
        *(math.sqrt(0.5) * (1 + i * 2.0**-52) for i in range(-3, 4)),
        1.0,
        math.nextafter(1, 2),
        math.nextafter(1, 0),
        5e-324,
        2.0**-1022,
        math.nextafter(2.0**-1022, 0),
        1.7976931348623157e308,
    ],
    "sin": [*RNG.uniform(-823549, 823549, 3000), *RNG.uniform(-7, 7, 2000), *QUARTERS, 1e-300, 0.0],
    "cos": [*RNG.uniform(-823549, 823549, 3000), *RNG.uniform(-7, 7, 2000), *QUARTERS, 1e-300, 0.0],
}
EDGES = {
    "exp": {
        math.nan: math.nan,
        math.inf: math.inf,
        -math.inf: 0.0,
        math.nextafter(maths.EXP_HIGHEST, 800): math.inf,
        math.nextafter(maths.EXP_LOWEST, -800): 0.0,
        0.0: 1.0,
    },
    "log": {
        math.nan: math.nan,
        math.inf: math.inf,
        0.0: -math.inf,
        -1.0: math.nan,
        -math.inf: math.nan,
        1.0: 0.0,
    },
    "sin": {math.nan: math.nan, math.inf: math.nan, 823550.0: math.nan, -823550.0: math.nan},
    "cos": {math.nan: math.nan, math.inf: math.nan, 823550.0: math.nan, 0.0: 1.0},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_errors_are_below_one_ulp(name):
    worst = 0.0
    with mpmath.workprec(160):
        for x in map(float, SAMPLES[name]):
            got, exact = getattr(maths, name)(x), getattr(mpmath, name)(mpmath.mpf(x))
            error = abs(mpmath.mpf(got) - exact) / mpmath.mpf(math.ulp(float(exact)))
            worst = max(worst, float(error))
    assert 0.4 < worst < 1.0


@pytest.mark.parametrize("name", SAMPLES)
def test_compiled_gives_the_same_bits(name):
    plain = getattr(maths, name)
    fast = compiled(plain)
    for x in map(float, [*SAMPLES[name], *EDGES[name]]):
        assert same_bits(fast(x), plain(x)), x


@pytest.mark.parametrize("name", EDGES)
def test_edges_have_the_values_of_the_contract(name):
    for x, expected in EDGES[name].items():
        assert same_bits(getattr(maths, name)(x), expected) or (
            math.isnan(expected) and math.isnan(getattr(maths, name)(x))
        ), x


def test_sqrt_is_correctly_rounded_and_floor_exact():
    fast_sqrt, fast_floor = compiled(root_of), compiled(maths.floor)
    for x in [*map(float, RNG.uniform(0, 1e6, 2000)), 0.0, 4.0, 1e-320, 1e308, math.inf]:
        assert same_bits(root_of(x), math.sqrt(x))
        assert same_bits(fast_sqrt(x), math.sqrt(x))
    assert same_bits(root_of(-0.0), -0.0)
    assert same_bits(fast_sqrt(-0.0), -0.0)
    for x in (-1.0, -math.inf, math.nan):
        assert math.isnan(root_of(x))
        assert math.isnan(fast_sqrt(x))
    for x in [
        *map(float, RNG.uniform(-9, 9, 500)),
        2.0,
        -2.0,
        0.0,
        -0.5,
        2.0**62 + 4096,
        -(2.0**62),
    ]:
        assert maths.floor(x) == math.floor(x) == fast_floor(x)


@kernel
def root_of(x: float) -> float:
    return maths_sqrt(x)


def test_the_parts_of_half_pi_add_up():
    with mpmath.workprec(200):
        total = mpmath.mpf(maths.PIO2_1) + mpmath.mpf(maths.PIO2_2) + mpmath.mpf(maths.PIO2_3)
        assert abs(total - mpmath.pi / 2) < mpmath.mpf(2) ** -118
    for part in (maths.PIO2_1, maths.PIO2_2):
        assert 2**20 * part == float(2**20 * part)
        assert int(math.frexp(part)[0] * 2**53) % 2**20 == 0


@kernel
def add_one_ulp(x: float) -> float:
    return bits_float(float_bits(x) + 1)


def test_bits_go_there_and_back():
    fast = compiled(add_one_ulp)
    for x in (1.0, -1.0, 0.1, 5e-324, 1e308):
        away = math.nextafter(x, math.copysign(math.inf, x))
        assert add_one_ulp(x) == away == fast(x)


KEY = streams.machine_key(streams.make_key(1, 2, 3, 4))
MACHINE = {
    maths.exp: (0.5,),
    maths.log: (0.5,),
    maths.sin: (0.5,),
    maths.cos: (0.5,),
    normals.inverse_normal: (0.01,),
    key_block: (KEY, 1),
    draws.uniform: (KEY, 0),
    draws.uniform_range: (KEY, 0, 0.5, 1.0),
    draws.log_uniform: (KEY, 0, 0.5, 1.0),
    draws.integers: (KEY, 0, 10),
    draws.bernoulli: (KEY, 0, 0.5),
    draws.normal: (KEY, 0),
}

SUPPORT = str(Path(__file__).parents[1] / "support")
FRESH = """
import importlib.util
import sys

sys.path.append({support!r})

spec = importlib.util.spec_from_file_location("of_maths", {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for fn in module.MACHINE:
    module.check_machine_code(fn)
print("checked", len(module.MACHINE))
"""


@pytest.mark.slow
def test_machine_code_calls_no_libm_and_fuses_nothing(python):
    """In an interpreter and a cache of its own: code that was loaded from a cache has no text."""
    assert python(FRESH.format(file=__file__, support=SUPPORT)) == f"checked {len(MACHINE)}"


def check_machine_code(fn):
    fast = compiled(fn)
    fast(*MACHINE[fn])
    assert violations(fast) == []


def test_violations_are_found():
    @numba.njit(fastmath=True)
    def loose(x):
        return math.exp(x) * x + 1.0

    @numba.njit
    def power(x, y):
        return x**y

    @numba.njit
    def remainder(x, y):
        return x % y

    @numba.njit
    def keeps(n):
        return np.zeros(n).sum()

    for fn, arguments, message in [
        (loose, (1.0,), "calls (llvm.)?exp"),
        (loose, (1.0,), "lets fmul be reordered or rounded differently: fast"),
        (power, (1.5, 2.5), "calls (llvm.)?pow"),
        (remainder, (1.5, 2.5), "calls fmod, by frem"),
        (keeps, (5,), "allocates memory: NRT_"),
    ]:
        fn(*arguments)
        found = violations(fn)
        assert any(re.match(message, line) for line in found), (message, found)


@pytest.mark.parametrize("text", [" vfmadd213sd %xmm0, %xmm1, %xmm2", " fmadd d0, d0, d0, d1"])
def test_fused_operations_are_found_in_assembly(text):
    class Compiled:
        inspect_llvm = staticmethod(lambda: {(): "define void @_ZN3fooE() {"})
        inspect_asm = staticmethod(lambda: {(): text})

    assert violations(Compiled) == [f"fuses a multiplication and an addition: {text.split()[0]}"]


def test_code_without_text_is_no_proof():
    with pytest.raises(UsageError, match=r"^_exp: no machine code to read: call the kernel"):
        violations(numba.njit(_exp))


def _exp(x):
    return maths.exp(x)
