"""Resize the longer side to a given length, keeping the ratio of sides; no randomness."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import FIT_FLOATS, FIT_KERNELS, fit_long, fit_scratch
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
    return fit_long(height, width, int(params["size"]))


@register
@dataclass(frozen=True)
class ResizeLong(Op):
    """Resize the longer side to a given length, keeping the ratio.

    Attributes:
        size: length of the longer side, in pixels.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    size: int
    interpolation: str = "bilinear"

    name: ClassVar[str] = "resize_long"
    image_dtypes = ANY_DTYPE
    examples = (
        {"size": 40},
        {"size": 21, "interpolation": "bicubic"},
        {"size": 33, "interpolation": "area"},
    )
    picture = {"size": 120}
    varied = {"size": (30, 40)}
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("size", "i4"), ("interpolation", "u1")])
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
        self.settle(
            size=checks.integer(self.name, "size", self.size, 1, checks.MAX_SIDE),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.size, INTERPOLATIONS.index(self.interpolation)), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size, or of a bounded size."""
        self.require_pixels(states)
        most = (self.size, self.size)
        need = [fit_scratch(s, most, self.interpolation) for s in states]
        return tuple(self._fitted(s) for s in states), max(need, default=0)

    def _fitted(self, state: State) -> State:
        height, width = state.shape[:2]
        if height is None or width is None:
            return state.resized(None, None, (self.size, self.size))
        tall, wide = fit_long(height, width, self.size)
        return state.resized(tall, wide, (tall, wide))


def resize_long(
    *values: Value,
    size: int,
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize the longer side of values of a pipeline; see `ResizeLong`."""
    return ResizeLong(size, interpolation)(*values, stream=stream, relative=relative)
