"""Keep the upper bits of every level, with probability p, as torchvision's RandomPosterize."""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Whole
from stoker.ops.contract.registry import register


@kernel
def mask_levels(image: Any, mask: Any) -> None:
    """Keep the bits of a mask in every level of a flat image, in place."""
    for i in range(np.uint64(image.size)):
        image[i] = np.uint8(image[i] & mask)


@kernel
def upper_bits(bits: Any) -> Any:
    """Return the mask of the upper bits of a level."""
    return np.uint8(256 - (1 << (8 - bits)))


@kernel
def mask_into(source: Any, image: Any, mask: Any) -> None:
    """Write the bits of a mask of every level of a flat image to other memory."""
    for i in range(np.uint64(image.size)):
        image[i] = np.uint8(source[i] & mask)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    mask = upper_bits(params["bits"])
    if record["apply"] and src.ctypes.data != dst.ctypes.data:
        mask_into(src.reshape(src.size), dst.reshape(dst.size), mask)
    else:
        image = begin(src, dst)
        if record["apply"]:
            mask_levels(image, mask)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src & upper_bits(int(params["bits"])) if record["apply"] else src


@register
class Posterize(PixelOp):
    """Keep the upper bits of every level."""

    bits: Annotated[int, Whole(0, 8), "bits that are kept: 0 is black, 8 changes nothing"] = 4
    p: Probability = 0.5

    of_levels = True
    clips_floats = True
    examples = ({"p": 0.5}, {"bits": 2, "p": 1})
    picture = {"bits": 2}
    kernels = {"image": Kernel(_run, _plain, in_place=True)}


posterize = function(Posterize)
