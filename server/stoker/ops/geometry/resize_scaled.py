"""`resize(decode="scaled")`: a whole image, decoded at a fraction of its size, resized.

See `stoker.ops.bases.scaled_box`; the box is the whole image.
"""

from stoker.ops.bases.scaled_box import ScaledImage
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.geometry.resize import Resize


@register_unlisted
class ResizeScaled(ScaledImage, Resize):
    """Resize an image that is decoded at a fraction to a fixed size."""

    name = "resize_scaled"
    exact = "resize"

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return the output size."""
        return self.size
