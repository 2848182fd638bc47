"""Mirror top and bottom with probability p, image and mask alike.

Draw 0 decides: flipped if uniform < p. The record's `flip` is 0 or 1.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops import checks
from stoker.ops.contract import Kernel, Op, State, Value
from stoker.ops.points import scaled
from stoker.ops.registry import register
from stoker.ops.reorder import reorder
from stoker.ops.rules import require_pixels
from stoker.rng.draws import bernoulli
from stoker.rng.jit import kernel


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["flip"] = 1 if bernoulli(key, 0, params["p"]) else 0


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape[0], src.shape[1]
    first, step = ((height - 1) * width, -width) if record["flip"] else (0, width)
    reorder(src, dst, (height, width), (first, step, 1))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[::-1] if record["flip"] else src


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if record["flip"]:
        return scaled(1.0, -1.0, 0.0, sizes[0])
    return scaled(1.0, 1.0, 0.0, 0.0)


@register
@dataclass(frozen=True)
class VerticalFlip(Op):
    """Mirror top and bottom.

    Attributes:
        p: probability.
    """

    p: float = 0.5

    name: ClassVar[str] = "vertical_flip"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("p", "f8")])
    record: ClassVar[np.dtype[Any]] = np.dtype([("flip", "u1")])
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    draw = staticmethod(_draw)
    forward = staticmethod(_forward)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(p=checks.number(self.name, "p", self.p, 0.0, 1.0))

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.p,), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states as they are."""
        self.require_kinds(states)
        require_pixels(self.name, states)
        return states, 0


def vertical_flip(*values: Value, p: float = 0.5, stream: str | None = None) -> Any:
    """Mirror top and bottom of values of a pipeline with probability p; see `VerticalFlip`."""
    return VerticalFlip(p)(*values, stream=stream)
