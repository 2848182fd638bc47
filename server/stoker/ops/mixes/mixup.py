"""Mix each row with another row of its group: pixels and labels become weighted means.

Draws: 0 whether the row is mixed, 1 which member of the group is its partner, 2 and 3 the weight
`lam` of the row itself, beta distributed. Source: H. Zhang, M. Cisse, Y. Dauphin, D. Lopez-Paz,
"mixup: beyond empirical risk minimization", ICLR 2018; there the whole batch shares one weight.
Boxes and keypoints of both rows are kept, the row's own first.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.batch_op import (
    FLOATS,
    OFFSETS,
    Mixed,
    bounded,
    require_fixed,
    require_weights,
)
from stoker.ops.bases.partnered import Partnered, Shape
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import FLOAT, float_first, refuse
from stoker.ops.contract.states import State
from stoker.ops.kernels.gammas import beta
from stoker.ops.kernels.means import Tools
from stoker.rng.draws import bernoulli, integers

KINDS: Final = ("array", "boxes", "image", "keypoints", "label", "scalar")


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["applied"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["offset"] = integers(key, 1, OFFSETS)
    record["lam"] = beta(key, 2, params["alpha"], params["alpha"])
    record["partner"] = -1


@register_batch
class Mixup(Partnered):
    """Mix rows with others."""

    alpha: Shape = 0.2

    image_dtypes = ("uint8", FLOAT)
    record = np.dtype([("applied", "u1"), ("offset", "u2"), ("lam", "f8"), ("partner", "i8")])
    draw = staticmethod(_draw)

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the kinds that the op has a rule for."""
        return KINDS

    def mixed(self, state: State) -> State:
        """Return the state of the result; the bound of boxes and keypoints is doubled."""
        if state.items:
            return bounded(state, 2)
        if state.kind not in KINDS:
            raise self.no_rule(state)
        require_fixed(self.name, state)
        if len(state.shape) < 2:
            require_weights(self.name, state)
        elif state.dtype not in ("uint8", *FLOATS):
            remedy = "Class numbers have no mean: leave them out of this call"
            remedy = float_first(self.name, state, remedy)
            raise refuse(self.name, f"pixels of dtype uint8, {', '.join(FLOATS)}", state, remedy)
        return state

    def resolve(self, record: np.ndarray, size: tuple[int, int], ids: Sequence[int]) -> None:
        """Complete a record: `partner` becomes the id of the other sample."""
        record["partner"] = ids[0]

    def mix(self, value: Mixed, record: Any, tools: Tools) -> int:
        """Write the weighted mean, or both rows' items."""
        state, (own, other), dst = value
        if state.items:
            return append(own, other, dst)
        tools.blend(own, other, dst, float(record["lam"]))
        return 0


def append(own: np.ndarray, other: np.ndarray, dst: np.ndarray) -> int:
    """Write the items of two rows, one after the other; return their number."""
    count = len(own) + len(other)
    dst[: len(own)], dst[len(own) : count] = own, other
    return count


mixup = function(Mixup)
