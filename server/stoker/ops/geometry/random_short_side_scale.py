"""Resize the shorter side to a random length, keeping the ratio: image and mask alike.

Draw 0 is the length, an integer uniform in `sizes`. The record has it and the size of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import (
    FIT_FLOATS,
    FIT_KERNELS,
    check_max,
    fit_scratch,
    fit_short,
    short_most,
    short_state,
)
from stoker.ops.bases.resizing import INTERPOLATIONS
from stoker.ops.bases.wide_resize import SIGNED_RESIZE, WIDE_RESIZE
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import fill_frame
from stoker.rng.draws import integers


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    low, high = int(params["low"]), int(params["high"])
    size = low + int(integers(key, 0, high - low + 1))
    record["size"] = size
    record["height"], record["width"] = fit_short(height, width, size, int(params["max_size"]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> Any:
    return np.int64(record["height"]), np.int64(record["width"])


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    size, most = int(record["size"]), int(params["max_size"])
    record["height"], record["width"] = fit_short(sizes[2], sizes[3], size, most)
    return True


def _sizes(op: str, value: object) -> tuple[int, int]:
    """Return (low, high) of the shorter side."""
    ends: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else ()
    whole = len(ends) == 2 and all(checks.is_integer(e) for e in ends)
    if whole and 1 <= ends[0] <= ends[1] <= checks.MAX_SIDE:
        return int(ends[0]), int(ends[1])
    expected = f"(low, high), integers with 1 <= low <= high <= {checks.MAX_SIDE}"
    raise checks.refuse(op, "sizes", expected, value)


@register
@dataclass(frozen=True)
class RandomShortSideScale(Op):
    """Resize the shorter side to a random length, keeping the ratio.

    Attributes:
        sizes: (low, high) of the shorter side's length in pixels, both included.
        max_size: maximum length of the longer side; if it would be exceeded, the longer side
            gets it and the shorter one becomes shorter than drawn.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    sizes: tuple[int, int]
    max_size: int
    interpolation: str = "bilinear"

    name: ClassVar[str] = "random_short_side_scale"
    image_dtypes = ANY_DTYPE
    examples = (
        {"sizes": (12, 40), "max_size": 70},
        {"sizes": (5, 90), "max_size": 90, "interpolation": "bicubic"},
    )
    picture = {"sizes": (80, 120), "max_size": 240}
    varied = {"sizes": ((16, 30),), "max_size": (40,)}
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("low", "i4"), ("high", "i4"), ("max_size", "i4"), ("interpolation", "u1")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("size", "i4"), ("height", "i4"), ("width", "i4")])
    kernels: ClassVar[dict[str, Kernel]] = FIT_KERNELS
    floats: ClassVar[dict[str, Kernel]] = FIT_FLOATS
    wide: ClassVar[dict[str, Kernel]] = WIDE_RESIZE
    signed: ClassVar[dict[str, Kernel]] = SIGNED_RESIZE
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)
    forward = staticmethod(fill_frame)
    affine: ClassVar[bool] = True
    rescale = staticmethod(_rescale)

    def check(self) -> None:
        """Check the parameters."""
        sizes = _sizes(self.name, self.sizes)
        self.settle(
            sizes=sizes,
            max_size=check_max(self.name, sizes[1], self.max_size),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        code = INTERPOLATIONS.index(self.interpolation)
        return np.array((*self.sizes, self.max_size, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of bounded sizes."""
        self.require_pixels(states)
        need = [
            fit_scratch(s, short_most(s, self.sizes[1], self.max_size), self.interpolation)
            for s in states
        ]
        after = [short_state(s, self.sizes, self.max_size) for s in states]
        return tuple(after), max(need, default=0)


def random_short_side_scale(
    *values: Value,
    sizes: tuple[int, int],
    max_size: int,
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize the shorter side of values to a random length; see `RandomShortSideScale`."""
    return RandomShortSideScale(sizes, max_size, interpolation)(
        *values, stream=stream, relative=relative
    )
