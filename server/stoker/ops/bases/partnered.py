"""The base of batch ops that mix a row with one other row of its group: mixup and cutmix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops.bases.batch import BatchOp
from stoker.ops.contract import checks
from stoker.ops.kernels.gammas import LARGEST, SMALLEST


@dataclass(frozen=True)
class Partnered(BatchOp):
    """Base of ops whose weight `lam` is beta distributed.

    Attributes:
        alpha: both shapes of the beta distribution.
        p: probability that a row is mixed.
    """

    alpha: float
    p: float = 1.0

    parameters: ClassVar[np.dtype[Any]] = np.dtype([("alpha", "f8"), ("p", "f8")])

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            alpha=checks.number(self.name, "alpha", self.alpha, SMALLEST, LARGEST),
            p=checks.number(self.name, "p", self.p, 0.0, 1.0),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.alpha, self.p), self.parameters)
