"""exp, log, sin, cos, sqrt, floor of float64 from IEEE operations: one result on every machine.

No libm (its results differ between versions), no fused multiply-add, no fastmath: only + - * / on
float64, each rounded once, comparisons, conversion to integers, and bits. Plain Python and compiled
code share one source. sqrt is IEEE's own, rounded once; numba's math.sqrt would call libm.

Method and polynomials: fdlibm (Sun Microsystems, 1993; e_exp.c, e_log.c, k_sin.c, k_cos.c), which
proves errors below 1 ulp; the argument reduction of sin and cos is Cody and Waite's in three parts.

Domains (outside of them, the value given here is the contract; which nan is left open):
- exp: x below -708.396... (where the result would not be a normal number) gives 0.0, x above
  709.782... gives inf, nan gives nan.
- log: 0.0 gives -inf, below 0 nan; subnormal numbers are handled.
- sqrt: below 0 nan.
- floor: |x| < 2**63, else undefined.
- sin, cos: |x| <= 2**19 * pi / 2 (about 823549.6); outside of that, nan.
"""

import math
from typing import Final

from stoker.jit.kernels import kernel
from stoker.rng.bits import bits_float, float_bits

INF: Final = float("inf")
NAN: Final = float("nan")

INV_LN2: Final = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH: Final = float.fromhex("0x1.62e42feep-1")
LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")
EXP_LOWEST: Final = float.fromhex("-0x1.6232bdd7abcd2p+9")
EXP_HIGHEST: Final = float.fromhex("0x1.62e42fefa39efp+9")
P1: Final = float.fromhex("0x1.555555555553ep-3")
P2: Final = float.fromhex("-0x1.6c16c16bebd93p-9")
P3: Final = float.fromhex("0x1.1566aaf25de2cp-14")
P4: Final = float.fromhex("-0x1.bbd41c5d26bf1p-20")
P5: Final = float.fromhex("0x1.6376972bea4d0p-25")


@kernel
def exp(x: float) -> float:
    """Return e**x; error below 1 ulp."""
    if x != x:  # noqa: PLR0124 (the IEEE test for nan, and no call)
        return NAN
    if x > EXP_HIGHEST:
        return INF
    if x < EXP_LOWEST:
        return 0.0
    k = int(x * INV_LN2 + (0.5 if x >= 0.0 else -0.5))
    high = x - k * LN2_HIGH
    low = k * LN2_LOW
    r = high - low
    t = r * r
    c = r - t * (P1 + t * (P2 + t * (P3 + t * (P4 + t * P5))))
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    # 2**k in two factors, because 2**1024 alone is not a float64.
    half = k // 2
    return (y * bits_float((half + 1023) << 52)) * bits_float((k - half + 1023) << 52)


MIN_NORMAL: Final = float.fromhex("0x1p-1022")
TWO_54: Final = float.fromhex("0x1p+54")
SQRT_HALF_BITS: Final = 0x3FE6A09E667F3BCD
L1: Final = float.fromhex("0x1.5555555555593p-1")
L2: Final = float.fromhex("0x1.999999997fa04p-2")
L3: Final = float.fromhex("0x1.2492494229359p-2")
L4: Final = float.fromhex("0x1.c71c51d8e78afp-3")
L5: Final = float.fromhex("0x1.7466496cb03dep-3")
L6: Final = float.fromhex("0x1.39a09d078c69fp-3")
L7: Final = float.fromhex("0x1.2f112df3e5244p-3")


@kernel
def log(x: float) -> float:
    """Return the natural logarithm of x; error below 1 ulp."""
    if not x >= 0.0:
        return NAN
    if x == 0.0:
        return -INF
    if x == INF:
        return INF
    shift = 0
    if x < MIN_NORMAL:
        x = x * TWO_54
        shift = 54
    bits = float_bits(x)
    # x = 2**k * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2).
    k = (bits - SQRT_HALF_BITS) >> 52
    f = bits_float(bits - (k << 52)) - 1.0
    k = k - shift
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (L2 + w * (L4 + w * L6))
    odd = z * (L1 + w * (L3 + w * (L5 + w * L7)))
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + (even + odd)) + k * LN2_LOW)) - f)


@kernel(twin="stoker.rng.intrinsics:square_root")
def sqrt(x: float) -> float:
    """Return the square root of x, correctly rounded; nan below 0."""
    return math.sqrt(x) if x >= 0.0 else NAN


@kernel
def floor(x: float) -> int:
    """Return the largest integer that is not above x."""
    k = int(x)
    return k - 1 if x < k else k


LARGEST_ANGLE: Final = float.fromhex("0x1.921fb54442d18p+19")
TWO_OVER_PI: Final = float.fromhex("0x1.45f306dc9c883p-1")
# pi/2 = PIO2_1 + PIO2_2 + PIO2_3, the first two of 33 bits each: n * part is exact for n <= 2**20.
PIO2_1: Final = float.fromhex("0x1.921fb544p+0")
PIO2_2: Final = float.fromhex("0x1.0b4611a6p-34")
PIO2_3: Final = float.fromhex("0x1.3198a2e037073p-69")
S1: Final = float.fromhex("-0x1.5555555555549p-3")
S2: Final = float.fromhex("0x1.111111110f8a6p-7")
S3: Final = float.fromhex("-0x1.a01a019c161d5p-13")
S4: Final = float.fromhex("0x1.71de357b1fe7dp-19")
S5: Final = float.fromhex("-0x1.ae5e68a2b9cebp-26")
S6: Final = float.fromhex("0x1.5d93a5acfd57cp-33")
C1: Final = float.fromhex("0x1.555555555554cp-5")
C2: Final = float.fromhex("-0x1.6c16c16c15177p-10")
C3: Final = float.fromhex("0x1.a01a019cb1590p-16")
C4: Final = float.fromhex("-0x1.27e4f809c52adp-22")
C5: Final = float.fromhex("0x1.1ee9ebdb4b1c4p-29")
C6: Final = float.fromhex("-0x1.8fae9be8838d4p-37")


@kernel
def sin(x: float) -> float:
    """Return the sine of x radians; error below 1 ulp."""
    if not -LARGEST_ANGLE <= x <= LARGEST_ANGLE:
        return NAN
    return quarter(x, 0)


@kernel
def cos(x: float) -> float:
    """Return the cosine of x radians; error below 1 ulp."""
    if not -LARGEST_ANGLE <= x <= LARGEST_ANGLE:
        return NAN
    return quarter(x, 1)


@kernel
def quarter(x: float, ahead: int) -> float:
    """Return sin(x + ahead * pi/2).

    x = n * pi/2 + (r + tail), |r| <= pi/4 (up to rounding); the quarter (n + ahead) mod 4 says
    which of +-sin, +-cos of (r + tail) it is.
    """
    n = int(x * TWO_OVER_PI + (0.5 if x >= 0.0 else -0.5))
    a = x - n * PIO2_1
    b = n * PIO2_2
    c = a - b
    # TwoSum: the exact error of a - b, whichever is larger.
    back = a - c
    error = (a - (c + back)) + (back - b)
    rest = error - n * PIO2_3
    r = c + rest
    tail = (c - r) + rest
    turn = (n + ahead) & 3
    y = sine(r, tail) if turn & 1 == 0 else cosine(r, tail)
    return y if turn & 2 == 0 else -y


@kernel
def sine(x: float, tail: float) -> float:
    """Return sin(x + tail) for |x| <= pi/4, the tail below half an ulp of x."""
    z = x * x
    v = z * x
    p = S2 + z * (S3 + z * (S4 + z * (S5 + z * S6)))
    return x - ((z * (0.5 * tail - v * p) - tail) - v * S1)


@kernel
def cosine(x: float, tail: float) -> float:
    """Return cos(x + tail) for |x| <= pi/4, the tail below half an ulp of x."""
    z = x * x
    p = z * (C1 + z * (C2 + z * (C3 + z * (C4 + z * (C5 + z * C6)))))
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * p - x * tail))
