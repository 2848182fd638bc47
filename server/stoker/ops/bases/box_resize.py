"""A box of image and mask resized to a fixed size: the part of an op after it has drawn the box.

Images are filtered as in `stoker.ops.resize`, masks take the nearest class. Nothing outside of the
box is read. The op's record is `BOX_RECORD`; its run-time parameters contain `height` and `width`
of the result, and `interpolation`.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.resizing import (
    NEAREST,
    filter_of,
    plain_image,
    plain_mask,
    resize_floats,
    resize_mask,
)
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.kernels.nearest import nearest
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.resample import resample

BOX_RECORD: Final[np.dtype[Any]] = np.dtype(
    [("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4")]
)


@kernel
def box_of(record: Any) -> Any:
    """Return (top, left, height, width), widened so that resizes compile for one type of size."""
    top, left = np.int64(record["top"]), np.int64(record["left"])
    return top, left, np.int64(record["height"]), np.int64(record["width"])


@kernel
def box_reads(params: Any, record: Any, height: int, width: int) -> Any:
    """Return the box: `Op.reads`."""
    return box_of(record)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if params["interpolation"] == NEAREST:
        nearest(src, box_of(record), dst, scratch)
    else:
        resample(src, box_of(record), dst, filter_of(params["interpolation"]), scratch)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    resize_floats(src, dst, box_of(record), int(params["interpolation"]), scratch)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    resize_mask(src, dst, box_of(record), scratch)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_image(src, dst, box_of(record), int(params["interpolation"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_mask(src, dst, box_of(record))


@kernel
def box_out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    """Return the size given by the parameters: `Op.out_size`."""
    return int(params["height"]), int(params["width"])


@kernel
def box_forward(params: Any, record: Any, sizes: Any) -> Any:
    """Return the map of points: `Op.forward`."""
    top, left, height, width = box_of(record)
    x, y = sizes[3] / width, sizes[2] / height
    return scaled(x, y, -left * x, -top * y)


BOX_KERNELS: Final[dict[str, Kernel]] = {
    "image": Kernel(_run_image, _plain_image),
    "mask": Kernel(_run_mask, _plain_mask),
}
BOX_FLOATS: Final[dict[str, Kernel]] = {"image": Kernel(_run_floats, _plain_image)}
