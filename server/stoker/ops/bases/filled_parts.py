"""Fill parts of image and mask alike, with probability p, from one rule: which pixels.

The rule of an op is a kernel `fill(image, shape, record, value)`: it writes the value, one number
for each channel, into its pixels of a flat image of `shape` = (height, width, channels). A mask has
one channel. The plain form is `where(shape, record)`: `(H, W) bool`, the same pixels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fills
from stoker.ops.bases.pixelwise import PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel, RunKernel, no_draw
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.points import stay

Where = Callable[[tuple[int, ...], Any], np.ndarray]
rule: Any = no_draw
"""The `fill` of the op, in the templates."""


@kernel
def _image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        rule(image, src.shape, record, params["fill"])


@kernel
def _mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        rule(image, (src.shape[0], src.shape[1], 1), record, params["mask_fill"])


def filling_kernels(fill: Callable[..., None], where: Where) -> dict[str, Kernel]:
    """Return the kernels of image and mask of an op that fills pixels."""
    return {
        "image": Kernel(adapted(_image, fill), _plain(where, "fill"), in_place=True),
        "mask": Kernel(adapted(_mask, fill), _plain(where, "mask_fill"), in_place=True),
    }


def _plain(where: Where, name: str) -> RunKernel:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        dst[...] = src
        if record["apply"]:
            channels = src.shape[2] if src.ndim == 3 else 1
            dst[where(src.shape[:2], record)] = params[name][:channels]

    return plain


@dataclass(frozen=True)
class FillsParts(Fills, PixelOp):
    """Base of ops that fill parts: an op declares `fill`, `mask_fill` and `p`, and its kernels."""

    image_dtypes = ANY_DTYPE
    moves_pixels = False
    forward = staticmethod(stay)
