"""Resize the shorter side to a given length, keeping the ratio of sides; no randomness.

Like torchvision's `Resize(size, max_size=...)`. Memory is planned before the first image is read,
so something must bound the longer side of a thin image: `max_size`, or the sizes in the dataset.
"""

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
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import fill_frame


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return fit_short(height, width, int(params["size"]), int(params["max_size"]))


@register
@dataclass(frozen=True)
class ResizeShort(Op):
    """Resize the shorter side to a given length, keeping the ratio.

    Attributes:
        size: length of the shorter side, in pixels.
        max_size: maximum length of the longer side; if it would be exceeded, the longer side
            gets it and the shorter one becomes shorter than `size`. It may be left out where the
            sizes of the dataset's images are known: then the longest and the shortest side of
            these bound the longer side.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    size: int
    max_size: int | None = None
    interpolation: str = "bilinear"

    name: ClassVar[str] = "resize_short"
    image_dtypes = ANY_DTYPE
    examples = (
        {"size": 24, "max_size": 60},
        {"size": 30, "max_size": 31, "interpolation": "nearest"},
        {"size": 17, "max_size": 60, "interpolation": "lanczos"},
    )
    picture = {"size": 100, "max_size": 240}
    varied = {"size": (20, 30), "max_size": (50,)}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("size", "i4"), ("max_size", "i4"), ("interpolation", "u1")]
    )
    kernels: ClassVar[dict[str, Kernel]] = FIT_KERNELS
    floats: ClassVar[dict[str, Kernel]] = FIT_FLOATS
    wide: ClassVar[dict[str, Kernel]] = WIDE_RESIZE
    signed: ClassVar[dict[str, Kernel]] = SIGNED_RESIZE
    out_size = staticmethod(_out_size)
    forward = staticmethod(fill_frame)
    affine: ClassVar[bool] = True
    rescale = staticmethod(keep_record)

    def check(self) -> None:
        """Check the parameters."""
        size = checks.integer(self.name, "size", self.size, 1, checks.MAX_SIDE)
        self.settle(
            size=size,
            max_size=None if self.max_size is None else check_max(self.name, size, self.max_size),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        code = INTERPOLATIONS.index(self.interpolation)
        most = checks.MAX_SIDE if self.max_size is None else self.max_size
        return np.array((self.size, most, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size, or of bounded sizes."""
        self.require_pixels(states)
        need = [
            fit_scratch(s, short_most(s, self.size, self.max_size), self.interpolation)
            for s in states
        ]
        after = [short_state(s, (self.size, self.size), self.max_size) for s in states]
        return tuple(after), max(need, default=0)


def resize_short(
    *values: Value,
    size: int,
    max_size: int | None = None,
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize the shorter side of values of a pipeline; see `ResizeShort`."""
    return ResizeShort(size, max_size, interpolation)(*values, stream=stream, relative=relative)
