"""Gamma, beta and Dirichlet variates from a key: the distributions of mixing weights.

A gamma variate takes one draw number, a beta variate two, and a set of Dirichlet weights one for
each weight; see the functions. Everything is IEEE arithmetic and the log, exp and sqrt of
`stoker.rng.maths`: plain and compiled forms share one source, so the same bits.

Source: G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", ACM
Transactions on Mathematical Software 26 (2000): for alpha >= 1, with d = alpha - 1/3, x normal, v =
(1 + x / sqrt(9 d))**3 and u uniform, d v is accepted if v > 0 and log(u) < x**2 / 2 + d (1 - v +
log(v)); for alpha < 1 a variate of alpha + 1, times u**(1 / alpha), their section 6. Their squeeze,
which only saves logarithms, is left out. A try is accepted with a probability of at least 0.951;
after `TRIES` rejections, a probability below 10**-80, the variate is d.

Variates are computed as logarithms, so that those of a small alpha, most of which are too small
for a normal float64, still have a ratio: a beta variate of alpha 0.001 is never nan.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.rng.draws import TO_UNIT, word
from stoker.rng.maths import exp, log, sqrt
from stoker.rng.normals import inverse_normal

TRIES: Final = 64
SMALLEST: Final = 1e-6
LARGEST: Final = 1e6
"""Bounds of alpha; ops check them, these functions do not."""
THIRD: Final = 1 / 3
ONE: Final = np.uint64(1)
TWELVE: Final = np.uint64(12)


@kernel
def inside(key: Any, k: int, j: int) -> float:
    """Return a float64 in (0, 1) from word j of draw k: 52 bits and a half."""
    bits = np.uint64(word(key, k, j)) >> TWELVE
    return float((bits << ONE) + ONE) * TO_UNIT


@kernel
def log_gamma_variate(key: Any, k: int, alpha: float) -> float:
    """Return the logarithm of a gamma variate of shape alpha and scale 1.

    It reads only draw k: word 0 is the boost's uniform, read if alpha < 1; words 2t + 1 and
    2t + 2 are the normal and the uniform of try t = 0, 1, ..., `TRIES` - 1.

    Args:
        key: of the row and the stream.
        k: draw number.
        alpha: from `SMALLEST` to `LARGEST`.
    """
    boost = 0.0
    shape = alpha
    if alpha < 1.0:
        boost = log(inside(key, k, 0)) / alpha
        shape = alpha + 1.0
    d = shape - THIRD
    c = 1.0 / sqrt(9.0 * d)
    for t in range(TRIES):
        x = inverse_normal(inside(key, k, 2 * t + 1))
        root = 1.0 + c * x
        if root > 0.0:
            v = root * root * root
            height = 0.5 * x * x + d * (1.0 - v + log(v))
            if log(inside(key, k, 2 * t + 2)) < height:
                return log(d * v) + boost
    return log(d) + boost


@kernel
def gamma(key: Any, k: int, alpha: float) -> float:
    """Return a gamma variate of shape alpha and scale 1; 0.0 if it is not a normal float64.

    It reads draw k, like `log_gamma_variate`.
    """
    return exp(log_gamma_variate(key, k, alpha))


@kernel
def beta(key: Any, k: int, a: float, b: float) -> float:
    """Return a beta variate in [0, 1] of shapes a and b: x / (x + y) of two gamma variates.

    It reads draw k for x and draw k + 1 for y, each like `log_gamma_variate`.
    """
    x = log_gamma_variate(key, k, a)
    return 1.0 / (1.0 + exp(log_gamma_variate(key, k + 1, b) - x))


@kernel
def dirichlet(key: Any, k: int, alpha: float, weights: Any) -> None:
    """Write the symmetric Dirichlet variate of shape alpha: weights in [0, 1] with sum 1.

    Weight i reads draw k + i, like `log_gamma_variate`. The sum is 1 up to rounding.

    Args:
        key: of the row and the stream.
        k: first draw number.
        alpha: from `SMALLEST` to `LARGEST`.
        weights: output, `(n,)` float64, n at least 1.
    """
    most = log_gamma_variate(key, k, alpha)
    weights[0] = most
    for i in range(1, len(weights)):
        weights[i] = log_gamma_variate(key, k + i, alpha)
        most = max(most, weights[i])
    total = 0.0
    for i in range(len(weights)):
        weights[i] = exp(weights[i] - most)
        total += weights[i]
    for i in range(len(weights)):
        weights[i] /= total
