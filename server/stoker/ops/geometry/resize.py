"""Resize to a fixed size; image and mask alike, without randomness.

Images are filtered (antialiased, as Pillow), masks take the nearest class and never a new one.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract import checks
from stoker.ops.contract.op import Kernel, Op, State, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import FLOAT, require_pixels
from stoker.ops.kernels.nearest import nearest, nearest_bytes, plain_nearest
from stoker.ops.kernels.points import fill_frame
from stoker.ops.kernels.resample import plain_pass, plain_resample, resample, scratch_bytes
from stoker.ops.kernels.resample_floats import (
    float_scratch_bytes,
    plain_float_pass,
    resample_floats,
)

INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic")
NEAREST: Final = 0
BICUBIC: Final = 2


@kernel
def resize_mask(src: Any, dst: Any, box: Any, scratch: Any) -> None:
    """Resize a box of a mask."""
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    nearest(whole, box, dst.reshape((dst.shape[0], dst.shape[1], 1)), scratch)


@kernel
def resize_floats(src: Any, dst: Any, box: Any, interpolation: int, scratch: Any) -> None:
    """Resize a box of an image of floats."""
    if interpolation == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        size = (dst.shape[0], dst.shape[1])
        part = (0, 0, dst.shape[0], dst.shape[1])
        bicubic = interpolation == BICUBIC
        resample_floats(src, box, size, part, dst.reshape(dst.size), bicubic, scratch)


@kernel
def run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    """Resize an image of floats to the size of `dst`, by the interpolation of the parameters."""
    box = (0, 0, src.shape[0], src.shape[1])
    resize_floats(src, dst, box, int(params["interpolation"]), scratch)


def plain_image(src: np.ndarray, dst: np.ndarray, box: Any, interpolation: int) -> None:
    """Resize a box of an image with NumPy."""
    top, left, height, width = box
    part = src[top : top + height, left : left + width]
    if interpolation == NEAREST:
        dst[...] = plain_nearest(part, dst.shape[:2])
    else:
        run = plain_float_pass if src.dtype == np.float32 else plain_pass
        dst[...] = plain_resample(part, dst.shape[:2], int(interpolation == BICUBIC), run)


def plain_mask(src: np.ndarray, dst: np.ndarray, box: Any) -> None:
    """Resize a box of a mask with NumPy."""
    plain_image(src, dst, box, NEAREST)


def resize_scratch(states: tuple[State, ...], size: tuple[int, int], interpolation: str) -> int:
    """Return the scratch bytes that a resize of the largest of these values needs."""
    need = nearest_bytes(size[1])
    if interpolation == "nearest":
        return need
    bicubic = int(interpolation == "bicubic")
    for state in states:
        if state.kind == "image":
            count = float_scratch_bytes if state.dtype == FLOAT else scratch_bytes
            need = max(need, int(count(*state.bound, *size, bicubic)))  # type: ignore[call-arg]
    return need


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box = (0, 0, src.shape[0], src.shape[1])
    if params["interpolation"] == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        resample(src, box, dst, params["interpolation"] == BICUBIC, scratch)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    resize_mask(src, dst, (0, 0, src.shape[0], src.shape[1]), scratch)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_image(src, dst, (0, 0, *src.shape[:2]), int(params["interpolation"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_mask(src, dst, (0, 0, *src.shape[:2]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


@register
@dataclass(frozen=True)
class Resize(Op):
    """Resize to a fixed size.

    Attributes:
        size: output side, or (height, width), in pixels.
        interpolation: filter of images: nearest, bilinear or bicubic. Masks are always nearest.
    """

    size: int | tuple[int, int]
    interpolation: str = "bilinear"

    name: ClassVar[str] = "resize"
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("height", "i4"), ("width", "i4"), ("interpolation", "u1")]
    )
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    floats: ClassVar[dict[str, Kernel]] = {"image": Kernel(run_floats, _plain_image)}
    out_size = staticmethod(_out_size)
    forward = staticmethod(fill_frame)
    rescale = staticmethod(keep_record)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            size=checks.pair(self.name, "size", self.size, 1),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        height, width = checks.pair(self.name, "size", self.size, 1)
        code = INTERPOLATIONS.index(self.interpolation)
        return np.array((height, width, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size."""
        self.require_kinds(states)
        require_pixels(self.name, states, floats=True)
        size = checks.pair(self.name, "size", self.size, 1)
        need = resize_scratch(states, size, self.interpolation)
        return tuple(state.resized(*size, size) for state in states), need


def resize(
    *values: Value,
    size: int | tuple[int, int],
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize values of a pipeline to a fixed size; see `Resize`."""
    return Resize(size, interpolation)(*values, stream=stream, relative=relative)
