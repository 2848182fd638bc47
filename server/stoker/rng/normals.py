"""The inverse of the normal distribution, in IEEE operations and the log of `stoker.rng.maths`.

Source: M. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
Statistics 37 (1988), routine PPND16 and its published constants: three ratios of polynomials of
degree 7, relative error about 1e-16. Plain and compiled forms share one source, so the same bits.
"""

from typing import Final

from stoker.jit.kernels import kernel
from stoker.rng.maths import log, sqrt

Eight = tuple[float, float, float, float, float, float, float, float]

# Highest power first. fmt: off
CENTER_TOP: Final[Eight] = (
    2.509080928730122672e3,
    3.343057558358812810e4,
    6.726577092700870085e4,
    4.592195393154987145e4,
    1.373169376550946112e4,
    1.971590950306551442e3,
    1.331416678917843774e2,
    3.387132872796366608e0,
)
CENTER_BOTTOM: Final[Eight] = (
    5.226495278852854561e3,
    2.872908573572194267e4,
    3.930789580009271061e4,
    2.121379430158659586e4,
    5.394196021424751107e3,
    6.871870074920579083e2,
    4.231333070160091125e1,
    1.0,
)
MIDDLE_TOP: Final[Eight] = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258e0,
    3.64784832476320460504e0,
    5.76949722146069140550e0,
    4.63033784615654529590e0,
    1.42343711074968357734e0,
)
MIDDLE_BOTTOM: Final[Eight] = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940e0,
    2.05319162663775882187e0,
    1.0,
)
TAIL_TOP: Final[Eight] = (
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    2.96560571828504891230e-1,
    1.78482653991729133580e0,
    5.46378491116411436990e0,
    6.65790464350110377720e0,
)
TAIL_BOTTOM: Final[Eight] = (
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    1.36929880922735805310e-1,
    5.99832206555887937690e-1,
    1.0,
)
# fmt: on


@kernel
def inverse_normal(p: float) -> float:
    """Return the z that a standard normal stays below with probability p.

    Args:
        p: in (0, 1); below 2**-1000 or so the approximation is not proved.
    """
    q = p - 0.5
    if -0.425 <= q <= 0.425:
        r = 0.180625 - q * q
        return q * ratio(r, CENTER_TOP, CENTER_BOTTOM)
    r = sqrt(-log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        z = ratio(r - 1.6, MIDDLE_TOP, MIDDLE_BOTTOM)
    else:
        z = ratio(r - 5.0, TAIL_TOP, TAIL_BOTTOM)
    return -z if q < 0.0 else z


@kernel
def ratio(x: float, top: Eight, bottom: Eight) -> float:
    """Return the quotient of two polynomials of degree 7, each by Horner's rule."""
    t7, t6, t5, t4, t3, t2, t1, t0 = top
    b7, b6, b5, b4, b3, b2, b1, b0 = bottom
    numerator = ((((((t7 * x + t6) * x + t5) * x + t4) * x + t3) * x + t2) * x + t1) * x + t0
    denominator = ((((((b7 * x + b6) * x + b5) * x + b4) * x + b3) * x + b2) * x + b1) * x + b0
    return numerator / denominator
