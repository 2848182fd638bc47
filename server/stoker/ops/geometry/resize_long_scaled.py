"""`resize_long(decode="scaled")`: a whole image, decoded at a fraction of its size, resized.

See `stoker.ops.bases.scaled_box`; the box is the whole image. The record has the image's size, from
which the size of the result follows.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.fit import fit_long
from stoker.ops.bases.scaled_box import ScaledImage
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.geometry.resize_long import ResizeLong


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    tall, wide = int(record["of_height"]), int(record["of_width"])
    return fit_long(tall, wide, int(params["size"]))


@register_unlisted
class ResizeLongScaled(ScaledImage, ResizeLong):
    """Resize the longer side of an image that is decoded at a fraction to a given length."""

    name = "resize_long_scaled"
    exact = "resize_long"
    out_size = staticmethod(_out_size)

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the result for an image of that size."""
        tall, wide = fit_long(height, width, self.size)
        return int(tall), int(wide)
