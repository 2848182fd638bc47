"""The bases of ops that resize a whole image, to a given or a drawn size, or a drawn box of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_resize import (
    BOX_FLOATS,
    BOX_KERNELS,
    BOX_RECORD,
    box_forward,
    box_out_size,
    box_reads,
)
from stoker.ops.bases.fit import FIT_FLOATS, FIT_KERNELS
from stoker.ops.bases.resizing import resize_scratch
from stoker.ops.bases.wide_resize import SIGNED_BOX, SIGNED_RESIZE, WIDE_BOX, WIDE_RESIZE
from stoker.ops.contract.op import Op
from stoker.ops.contract.relative import keep_record, rescale_box
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import fill_frame


@dataclass(frozen=True)
class Resized(Op):
    """Base of resizes to the size that `out_size` returns, by the parameter `interpolation`."""

    image_dtypes = ANY_DTYPE
    kernels = FIT_KERNELS
    floats = FIT_FLOATS
    wide = WIDE_RESIZE
    signed = SIGNED_RESIZE
    forward = staticmethod(fill_frame)
    affine = True
    rescale = staticmethod(keep_record)


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> Any:
    return np.int64(record["height"]), np.int64(record["width"])


@dataclass(frozen=True)
class DrawnSize(Resized):
    """Base of resizes to a drawn size: the record has the fields `height` and `width`."""

    random = True
    out_size = staticmethod(_out_size)


class ResizedPart(Op):
    """Base of ops that resize a box; they declare the states of their results.

    Attributes:
        interpolation: declared by the op.
    """

    interpolation: str

    image_dtypes = ANY_DTYPE
    random = True
    record = BOX_RECORD
    kernels = BOX_KERNELS
    floats = BOX_FLOATS
    wide = WIDE_BOX
    signed = SIGNED_BOX
    out_size = staticmethod(box_out_size)
    reads = staticmethod(box_reads)
    rescale = staticmethod(rescale_box)
    forward = staticmethod(box_forward)
    affine = True


class ResizedBox(ResizedPart):
    """Base of ops that resize a drawn box to a size of the parameters, `height` and `width`."""

    def result_size(self) -> tuple[int, int]:
        """Return height and width of the result."""
        raise NotImplementedError

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the output size."""
        self.require_pixels(states)
        size = self.result_size()
        need = resize_scratch(states, size, self.interpolation)
        return tuple(state.resized(*size, size) for state in states), need
