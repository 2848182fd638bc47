"""A factor drawn from a range, with probability p: the base of brightness, contrast, saturation.

Draws: 0 applied if uniform < p; 1 the factor, uniform in its range. A factor of 1 changes nothing.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.rng.draws import bernoulli, uniform_range

MOST: Final = 17.0
"""Maximum factor, also of color_jitter: every sum stays in int32."""


@kernel
def draw_factor(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Decide whether the op is applied, and draw its factor."""
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["factor"] = uniform_range(key, 1, params["factor_low"], params["factor_high"])


@dataclass(frozen=True)
class FactorOp(PixelOp):
    """Base of ops with a factor."""

    factor_range: Annotated[Range, Span(0.0, MOST), "factor; 1 changes nothing"] = (0.6, 1.4)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    record = np.dtype([("factor", "f8"), APPLY])
    draw = staticmethod(draw_factor)
