"""The base of horizontal_flip and vertical_flip: whether to mirror, with probability p.

Draw 0 decides: flipped if uniform < p. The record's `flip` is 0 or 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import ByChance
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.rng.draws import bernoulli


@kernel
def draw_flip(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Decide with draw 0 whether the values are mirrored."""
    record["flip"] = 1 if bernoulli(key, 0, params["p"]) else 0


@dataclass(frozen=True)
class FlipOp(ByChance):
    """Base of flips."""

    image_dtypes = ANY_DTYPE
    record = np.dtype([("flip", "u1")])
    mirrors = "flip"
    draw = staticmethod(draw_flip)


def swapped(state: State, kept: bool, swaps: bool) -> State:
    """Return the state of a value whose sides are swapped in some rows or in all.

    Args:
        state: the state of the input.
        kept: whether some rows keep their sides.
        swaps: whether some rows swap their sides.
    """
    if not swaps:
        return state
    height, width = state.shape[:2]
    tall, wide = state.bound[:2]
    if not kept:
        return state.resized(width, height, (wide, tall))
    if height is not None and height == width:
        return state
    most = max(tall, wide)
    return state.resized(None, None, (most, most))
