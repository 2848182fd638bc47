"""A box of image and mask cut out as it is: the part of an op after it has drawn the box.

The op's record has the fields top, left, height and width, in pixels; the box is inside of the
image, and the result has its size. `box_resize` resizes the box to a fixed size instead.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.forms import Kernel
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
def cut_out_size(params: Any, record: Any, height: int, width: int) -> Any:
    """Return the size of the box: `Op.out_size`."""
    return np.int64(record["height"]), np.int64(record["width"])


@kernel
def cut_forward(params: Any, record: Any, sizes: Any) -> Any:
    """Return the map of points: `Op.forward`."""
    return scaled(1.0, 1.0, -int(record["left"]), -int(record["top"]))


CUT_KERNELS: Final[dict[str, Kernel]] = {
    "image": Kernel(_run, _plain),
    "mask": Kernel(_run, _plain),
}
