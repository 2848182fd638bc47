"""Mix images by fixed weights: the weighted mean of their levels. No randomness.

Weight i becomes an integer: with end i the sum of the weights up to i, divided by the sum of all,
it is floor(2**16 * end i + 1/2) minus the same for the previous one. Arithmetic: `bases.mixing`.
"""

import math
from typing import Any

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
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import is_number, refuse
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State, StateError

HEAVIEST = 2.0**53


@kernel
def _weights(params: Any, record: Any) -> Any:
    return params["weights"]


@register
class Blend(Fold):
    """Mix images by fixed weights."""

    weights: tuple[float, ...]

    image_dtypes = ("uint8", FLOAT)
    examples = (
        {"weights": (1, 2, 3)},
        {"weights": (0.1,) * 16},
        {"weights": (0, 5)},
    )
    picture = {"weights": (2, 1)}
    varied = {"weights": ((0.2, 1.0), (0.7, 1.0))}
    parameters = np.dtype([WEIGHTS])
    folds = mix_folds(_weights)
    float_folds = mix_float_folds(_weights)

    def check(self) -> None:
        """Check the parameters."""
        given = self.weights
        good = isinstance(given, tuple | list) and 2 <= len(given) <= MOST
        if not good or not all(is_number(w) and 0 <= w <= HEAVIEST for w in given):
            expected = f"2 to {MOST} numbers that are not negative, one for each image"
            raise refuse(self.name, "weights", expected, given)
        if not any(given):
            raise refuse(self.name, "weights", "not all 0", given)
        self.settle(weights=tuple(float(weight) for weight in given))

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        total = math.fsum(self.weights)
        ends = [math.fsum(self.weights[:count]) / total for count in range(len(self.weights) + 1)]
        units = np.zeros(MOST, np.int64)
        units[: len(self.weights)] = np.diff([math.floor(WHOLE * end + 0.5) for end in ends])
        return np.array((units,), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return an image of the inputs' size."""
        declared = declare_mix(self, states)
        if len(states) != len(self.weights):
            raise StateError(
                f"{self.name}: expected one weight for each image, got {len(states)} images and "
                f"{len(self.weights)} weights",
                op=self.name,
            )
        return declared


blend = function(Blend)
