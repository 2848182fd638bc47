"""`resize(decode="scaled")`: a whole image, decoded at a fraction of its size, resized.

See `stoker.ops.bases.scaled_box`; the box is the whole image.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.scaled_box import ScaledBox, set_sizes
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.geometry.resize import Resize


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["top"], record["left"] = 0, 0
    record["height"], record["width"] = height, width
    set_sizes(record, height, width)


@register_unlisted
class ResizeScaled(ScaledBox, Resize):
    """Resize an image that is decoded at a fraction to a fixed size."""

    name = "resize_scaled"
    exact = "resize"
    random = False
    draw = staticmethod(_draw)

    def result_size(self) -> tuple[int, int]:
        """Return the output size."""
        return self.size
