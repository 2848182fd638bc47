"""Resize to a fixed size; image and mask alike, without randomness.

Images are filtered (antialiased, as in Pillow); masks take the nearest class, never a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.resizing import (
    INTERPOLATIONS,
    NEAREST,
    filter_of,
    plain_image,
    plain_mask,
    resize_mask,
    resize_scratch,
    run_floats,
)
from stoker.ops.bases.wide_resize import SIGNED_RESIZE, WIDE_RESIZE
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import ParameterError, State
from stoker.ops.kernels.nearest import nearest
from stoker.ops.kernels.points import fill_frame
from stoker.ops.kernels.resample import resample


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box = (0, 0, src.shape[0], src.shape[1])
    if params["interpolation"] == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        resample(src, box, dst, filter_of(params["interpolation"]), scratch)


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


def _sides(op: str, size: object) -> tuple[int, int]:
    """Return (height, width), and refuse a single side, which could mean a square or a ratio."""
    if checks.is_integer(size):
        raise ParameterError(
            f"{op}: expected size to be (height, width), got {size}; for a square give "
            f"({size}, {size}), and to scale the shorter side use "
            f"resize_short(size={size})",
            op=op,
        )
    sides = tuple(size) if isinstance(size, Sequence) else ()
    if len(sides) != 2 or not all(
        checks.is_integer(s) and 1 <= s <= checks.MAX_SIDE for s in sides
    ):
        raise checks.refuse(op, "size", f"(height, width), from 1 to {checks.MAX_SIDE}", size)
    return int(sides[0]), int(sides[1])


@register
@dataclass(frozen=True)
class Resize(Op):
    """Resize to a fixed size.

    Attributes:
        size: (height, width) of the output, in pixels. A single number is refused: torchvision's
            Resize would scale the shorter side to it.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    size: tuple[int, int]
    interpolation: str = "bilinear"

    name: ClassVar[str] = "resize"
    image_dtypes = ANY_DTYPE
    examples = (
        {"size": (24, 33)},
        {"size": (7, 11), "interpolation": "bicubic"},
        {"size": (50, 20), "interpolation": "nearest"},
        {"size": (24, 90), "interpolation": "lanczos"},
        {"size": (90, 13), "interpolation": "area"},
    )
    picture = {"size": (160, 120)}
    varied = {"size": ((32, 24), (32, 48))}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("height", "i4"), ("width", "i4"), ("interpolation", "u1")]
    )
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    floats: ClassVar[dict[str, Kernel]] = {"image": Kernel(run_floats, _plain_image)}
    wide: ClassVar[dict[str, Kernel]] = WIDE_RESIZE
    signed: ClassVar[dict[str, Kernel]] = SIGNED_RESIZE
    out_size = staticmethod(_out_size)
    forward = staticmethod(fill_frame)
    affine: ClassVar[bool] = True
    rescale = staticmethod(keep_record)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            size=_sides(self.name, self.size),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        height, width = _sides(self.name, self.size)
        code = INTERPOLATIONS.index(self.interpolation)
        return np.array((height, width, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size."""
        self.require_pixels(states)
        size = _sides(self.name, self.size)
        need = resize_scratch(states, size, self.interpolation)
        return tuple(state.resized(*size, size) for state in states), need


def resize(
    *values: Value,
    size: tuple[int, int],
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize values of a pipeline to a fixed size; see `Resize`."""
    return Resize(size, interpolation)(*values, stream=stream, relative=relative)
