"""A factor drawn from a range, with probability p: the base of brightness, contrast, saturation.

Draws: 0 applied if uniform < p; 1 the factor, uniform in its range. A factor of 1 changes nothing.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp
from stoker.ops.contract import checks
from stoker.rng.draws import bernoulli, uniform_range

MOST: Final = 17.0
"""Maximum factor, also of color_jitter: every sum stays in int32."""


@kernel
def draw_factor(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Decide whether the op is applied, and draw its factor."""
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["factor"] = uniform_range(key, 1, params["low"], params["high"])


@dataclass(frozen=True)
class FactorOp(PixelOp):
    """Base of ops with a factor.

    Attributes:
        factor_range: (low, high) of the factor, from 0 to 17.
        p: probability.
    """

    factor_range: tuple[float, float] = (0.6, 1.4)
    p: float = 0.5

    parameters: ClassVar[np.dtype[Any]] = np.dtype([("low", "f8"), ("high", "f8"), ("p", "f8")])
    record: ClassVar[np.dtype[Any]] = np.dtype([("factor", "f8"), APPLY])
    draw = staticmethod(draw_factor)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            factor_range=checks.span(self.name, "factor_range", self.factor_range, 0.0, MOST)
        )
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((*self.factor_range, self.p), self.parameters)
