"""Mix images by drawn weights: a beta share for the first, the rest divided among the others.

This is the mix of AugMix (Hendrycks and others, ICLR 2020), the image first and its augmented
copies after it. Draws 0 and 1 are the first image's share, a beta variate of shapes (alpha,
alpha); draws 2, 3, ... the shares of the others in the rest, Dirichlet weights of shape alpha
(`kernels.gammas`). The record has these `shares`, and the integer `weights` that are computed from
their sums as in `blend`. Arithmetic: `stoker.ops.bases.mixing`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.folds import Fold
from stoker.ops.bases.mixing import (
    MOST,
    WEIGHTS,
    WHOLE,
    declare_mix,
    mix,
    mix_floats,
    plain_mix,
    plain_mix_floats,
)
from stoker.ops.contract import checks
from stoker.ops.contract.forms import FoldKernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.gammas import beta, dirichlet
from stoker.rng.maths import floor

LEAST_ALPHA = 0.001
MOST_ALPHA = 1000.0


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
def _run(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    mix(src, place, count, dst, record["weights"], scratch)


def _plain(srcs: Sequence[np.ndarray], dst: np.ndarray, params: Any, record: Any) -> None:
    plain_mix(srcs, dst, record["weights"])


@kernel
def _run_floats(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    mix_floats(src, place, count, dst, record["weights"], scratch)


def _plain_floats(srcs: Sequence[np.ndarray], dst: np.ndarray, params: Any, record: Any) -> None:
    plain_mix_floats(srcs, dst, record["weights"])


@register
@dataclass(frozen=True)
class RandomBlend(Fold):
    """Mix images by drawn weights.

    Attributes:
        count: number of images, 2 to 16.
        alpha: shape of the draws, from 0.001 to 1000: if small, nearly always one image gets
            everything; if large, the first gets half and the others equal parts of the rest.
    """

    count: int
    alpha: float = 1.0

    name: ClassVar[str] = "random_blend"
    image_dtypes = ("uint8", FLOAT)
    examples = ({"count": 2}, {"count": 4, "alpha": 0.2}, {"count": 16, "alpha": 30})
    picture = {"count": 2}
    varied = {"count": (2,), "alpha": (0.7,)}
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("count", "i4"), ("alpha", "f8")])
    record: ClassVar[np.dtype[Any]] = np.dtype([("shares", "f8", (MOST,)), WEIGHTS])
    folds: ClassVar[dict[str, FoldKernel]] = {"image": FoldKernel(_run, _plain)}
    float_folds: ClassVar[dict[str, FoldKernel]] = {"image": FoldKernel(_run_floats, _plain_floats)}
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            count=checks.integer(self.name, "count", self.count, 2, MOST),
            alpha=checks.number(self.name, "alpha", self.alpha, LEAST_ALPHA, MOST_ALPHA),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.count, self.alpha), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return an image of the inputs' size."""
        declared = declare_mix(self, states)
        if len(states) != self.count:
            raise StateError(
                f"{self.name} was made for {self.count} images, got {len(states)}", op=self.name
            )
        return declared


def random_blend(*values: Value, alpha: float = 1.0, stream: str | None = None) -> Any:
    """Mix images of a pipeline by drawn weights; see `RandomBlend`."""
    return RandomBlend(len(values), alpha)(*values, stream=stream)
