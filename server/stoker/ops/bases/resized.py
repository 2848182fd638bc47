"""The bases of ops that resize whole images: to a size of the parameters, or to a drawn one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import FIT_FLOATS, FIT_KERNELS
from stoker.ops.bases.wide_resize import SIGNED_RESIZE, WIDE_RESIZE
from stoker.ops.contract.op import Op
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE
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
