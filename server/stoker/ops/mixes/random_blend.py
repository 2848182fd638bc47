"""Mix images by drawn weights: a beta share for the first, the rest divided among the others.

This is the mix of AugMix (Hendrycks and others, ICLR 2020), the image first and its augmented
copies after it. Draws 0 and 1 are the first image's share, a beta variate of shapes (alpha,
alpha); draws 2, 3, ... the shares of the others in the rest, Dirichlet weights of shape alpha
(`kernels.gammas`). The record has these `shares`, and the integer `weights` that are computed from
their sums as in `blend`. Arithmetic: `stoker.ops.bases.mixing`.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.folds import Fold
from stoker.ops.bases.mixing import (
    MOST,
    WEIGHTS,
    WHOLE,
    declare_mix,
    mix_float_folds,
    mix_folds,
)
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameters import Number, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.gammas import beta, dirichlet
from stoker.rng.maths import floor

LEAST_ALPHA = 0.001
MOST_ALPHA = 1000.0

ALPHA: Final = Number(LEAST_ALPHA, MOST_ALPHA)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    alpha, count = float(params["alpha"]), int(params["count"])
    shares, weights = record["shares"], record["weights"]
    dirichlet(key, 2, alpha, shares[1:count])
    shares[0] = beta(key, 0, alpha, alpha)
    part, before = 0.0, 0
    for i in range(MOST):
        if i > 0:
            shares[i] = (1.0 - shares[0]) * shares[i] if i < count else 0.0
        part += shares[i]
        end = WHOLE if i >= count - 1 else min(floor(WHOLE * part + 0.5), WHOLE)
        weights[i] = end - before
        before = end


@kernel
def _weights(params: Any, record: Any) -> Any:
    return record["weights"]


@register
class RandomBlend(Fold):
    """Mix images by drawn weights."""

    count: Annotated[int, Whole(2, MOST), "number of images"]
    alpha: Annotated[float, ALPHA, "shape of the draws: small, and one image gets all"] = 1.0

    image_dtypes = ("uint8", FLOAT)
    examples = ({"count": 2}, {"count": 4, "alpha": 0.2}, {"count": 16, "alpha": 30})
    picture = {"count": 2}
    varied = {"count": (2,), "alpha": (0.7,)}
    random = True
    record = np.dtype([("shares", "f8", (MOST,)), WEIGHTS])
    folds = mix_folds(_weights)
    float_folds = mix_float_folds(_weights)
    draw = staticmethod(_draw)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return an image of the inputs' size."""
        declared = declare_mix(self, states)
        if len(states) != self.count:
            raise StateError(
                f"{self.name} was made for {self.count} images, got {len(states)}", op=self.name
            )
        return declared


@calls(RandomBlend, without=("count",))
def random_blend(call: FunctionCall) -> Any:
    """Mix images by drawn weights."""
    return call(RandomBlend, count=len(call.values))
