"""A box of image and mask cut out as it is: the part of an op after it has drawn the box.

The op's record has the fields top, left, height and width, in pixels; the box is inside of the
image, and the result has its size. `box_resize` resizes the box to a fixed size instead.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.relative import rescale_box
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.reorder import move_rows


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    line = src.shape[1]
    move_rows(src, dst, int(record["top"]) * line + int(record["left"]), line)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = int(record["top"]), int(record["left"])
    dst[...] = src[top : top + dst.shape[0], left : left + dst.shape[1]]


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> Any:
    return np.int64(record["height"]), np.int64(record["width"])


@kernel
def cut_forward(params: Any, record: Any, sizes: Any) -> Any:
    """Return the map of points: `Op.forward`."""
    return scaled(1.0, 1.0, -int(record["left"]), -int(record["top"]))


@dataclass(frozen=True)
class BoxCut(Op):
    """Base of crops of a drawn size, which is decided from the boxes of the call."""

    image_dtypes = ANY_DTYPE
    random = True
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run, _plain),
        "mask": Kernel(_run, _plain),
    }
    draws_from = "boxes"
    out_size = staticmethod(_out_size)
    forward = staticmethod(cut_forward)
    affine = True
    rescale = staticmethod(rescale_box)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of any size up to that of the image."""
        self.require_pixels(states)
        return tuple(s.resized(None, None, (s.bound[0], s.bound[1])) for s in states), 0
