"""Paste a box of another row of the group over each row; labels are mixed by the areas.

Draws: 0 whether a box is pasted, 1 which member of the group it comes from, 2 and 3 the center of
the box as fractions of height and width, 4 and 5 the part of the image that is kept, beta
distributed. The box has sides sqrt(1 - part) of the image's and is clipped to it; `lam` then
becomes the part that is really kept. Source: S. Yun et al., "CutMix", ICCV 2019, with the rounding
of torchvision's CutMix: half a side is rounded down, so a box has an even number of pixels before
it is clipped.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.batch_op import (
    OFFSETS,
    Mixed,
    grid,
    picture_size,
    require_fixed,
    require_weights,
)
from stoker.ops.bases.partnered import Partnered, Shape
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register_batch
from stoker.ops.contract.rules import ANY_DTYPE, refuse, remedy_of
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.gammas import beta
from stoker.ops.kernels.means import Tools
from stoker.rng.draws import bernoulli, integers, uniform

KINDS: Final = ("array", "image", "label", "mask", "scalar")


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["applied"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["offset"] = integers(key, 1, OFFSETS)
    record["y"] = uniform(key, 2)
    record["x"] = uniform(key, 3)
    record["lam"] = beta(key, 4, params["alpha"], params["alpha"])
    record["partner"] = -1
    record["top"], record["left"], record["height"], record["width"] = 0, 0, 0, 0


@register_batch
class Cutmix(Partnered):
    """Paste a box of another row."""

    alpha: Shape = 1.0

    image_dtypes = ANY_DTYPE
    needs_picture = True
    record = np.dtype(
        [
            ("applied", "u1"), ("offset", "u2"), ("y", "f8"), ("x", "f8"), ("lam", "f8"),
            ("partner", "i8"), ("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4"),
        ]
    )  # fmt: skip
    draw = staticmethod(_draw)

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the kinds that the op has a rule for."""
        return KINDS

    def mixed(self, state: State) -> State:
        """Return the state, which does not change.

        Raises:
            StateError: boxes or keypoints are given: how much of an object a pasted box hides is
                not known; besides the reasons of all batch ops.
        """
        if state.items:
            raise StateError(
                f"{self.name} has no rule for {state.kind}: a pasted box may hide any part of an "
                "object. Use mosaic or mixup for object detection, or leave them out",
                op=self.name,
            )
        if state.kind not in KINDS:
            raise self.no_rule(state)
        require_fixed(self.name, state)
        if len(state.shape) < 2:
            require_weights(self.name, state)
        elif picture_size(state) is None:
            raise refuse(self.name, "pixels, in two or three sides", state, remedy_of(state))
        return state

    def resolve(self, record: np.ndarray, size: tuple[int, int], ids: Sequence[int]) -> None:
        """Complete a record: the partner's id, the box in pixels, and the part that is kept."""
        applied, offset, y, x, lam, *_ = record.item()
        reach = 0.5 * math.sqrt(1.0 - lam)
        top, tall = _cut(y, reach, size[0])
        left, wide = _cut(x, reach, size[1])
        stays = 1.0 - tall * wide / (size[0] * size[1])
        record[0] = (applied, offset, y, x, stays, ids[0], top, left, tall, wide)

    def mix(self, value: Mixed, record: Any, tools: Tools) -> int:
        """Write the row with the box pasted, or the weighted mean of labels."""
        state, (own, other), dst = value
        if len(state.shape) < 2:
            tools.blend(own, other, dst, float(record["lam"]))
            return 0
        *_, top, left, tall, wide = record.item()
        tools.paste(own, other, dst, grid(state), (top, left, tall, wide))
        return 0


def _cut(place: float, reach: float, side: int) -> tuple[int, int]:
    """Return the start of a box along a side, and its length, after clipping."""
    middle, half = int(place * side), int(reach * side)
    start = max(middle - half, 0)
    return start, min(middle + half, side) - start


cutmix = function(Cutmix)
