"""`resize_short(decode="scaled")`: a whole image, decoded at a fraction of its size, resized.

See `stoker.ops.bases.scaled_box`; the box is the whole image. The record has the image's size, from
which the size of the result follows.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.fit import fit_short
from stoker.ops.bases.scaled_box import ScaledImage
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.geometry.resize_short import ResizeShort


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    tall, wide = int(record["of_height"]), int(record["of_width"])
    return fit_short(tall, wide, int(params["size"]), int(params["max_size"]))


@register_unlisted
class ResizeShortScaled(ScaledImage, ResizeShort):
    """Resize the shorter side of an image that is decoded at a fraction to a given length."""

    name = "resize_short_scaled"
    exact = "resize_short"
    out_size = staticmethod(_out_size)

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the result for an image of that size."""
        tall, wide = fit_short(
            height, width, self.size, MAX_SIDE if self.max_size is None else self.max_size
        )
        return int(tall), int(wide)
