"""Ops as a user would write them, in a module of the user's own, and pipelines of them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker import ops
from stoker.jit import kernel
from stoker.ops import Kernel, Op, ParameterError, State
from stoker.pipeline import pipeline
from stoker.rng.draws import bernoulli


@kernel
def draw(key, params, height, width, record):
    record["last"] = bernoulli(key, 0, params["p"])


@kernel
def half(params, record, height, width):
    return height // 2, width // 2


@kernel
def run(src, dst, params, record, scratch):
    top = src.shape[0] - dst.shape[0] if record["last"] else 0
    left = src.shape[1] - dst.shape[1] if record["last"] else 0
    for y in range(dst.shape[0]):
        dst[y] = src[top + y, left : left + dst.shape[1]]


def plain(src, dst, params, record, scratch):
    height, width = dst.shape[:2]
    dst[...] = src[-height:, -width:] if record["last"] else src[:height, :width]


@dataclass(frozen=True)
class PickACorner(Op):
    """Keep the first or the last quadrant of images and masks.

    Attributes:
        p: probability of the last.
    """

    p: float = 0.5

    name: ClassVar[str] = "pick_a_corner"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype] = np.dtype([("p", "f8")])
    record: ClassVar[np.dtype] = np.dtype([("last", "u1")])
    draw: ClassVar[Any] = staticmethod(draw)
    out_size: ClassVar[Any] = staticmethod(half)
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(run, plain), "mask": Kernel(run, plain)}

    def check(self):
        if not 0 <= self.p <= 1:
            raise ParameterError(f"pick_a_corner: expected p from 0 to 1, got {self.p}")
        self.settle(p=float(self.p))

    def params(self):
        return np.array((self.p,), self.parameters)

    def declare(self, states: tuple[State, ...]):
        self.require_kinds(states)
        return tuple(self._half(state) for state in states), 0

    def _half(self, state: State) -> State:
        if any(bound < 2 for bound in state.bound[:2]):
            raise ops.StateError(f"pick_a_corner: {state} has no quadrants")
        height, width = (side if side is None else side // 2 for side in state.shape[:2])
        return state.resized(height, width, (state.bound[0] // 2, state.bound[1] // 2))


@pipeline
def corners(sample):
    image = ops.center_crop(sample.image, size=40)
    return {"image": PickACorner()(image), "label": sample.label}
