"""The base of batch ops that mix a row with one other row of its group: mixup and cutmix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.contract.parameters import Number, Probability
from stoker.ops.kernels.gammas import LARGEST, SMALLEST

Shape = Annotated[float, Number(SMALLEST, LARGEST), "both shapes of the beta distribution"]
"""The parameter `alpha`."""


@dataclass(frozen=True)
class Partnered(BatchOp):
    """Base of ops whose weight `lam` is beta distributed."""

    alpha: Shape
    p: Probability = 1.0
