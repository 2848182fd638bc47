"""`random_resized_crop(decode="scaled")`: the same crop, of an image decoded at a fraction.

See `stoker.ops.bases.scaled_box`. The draws are those of `stoker.ops.geometry.random_resized_crop`.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.scaled_box import ScaledBox, set_sizes
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.geometry.random_resized_crop import RandomResizedCrop, draw_crop


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    draw_crop(key, params, height, width, record)
    set_sizes(record, height, width)


@register_unlisted
class RandomResizedCropScaled(ScaledBox, RandomResizedCrop):
    """Crop a random part of an image that is decoded at a fraction, and resize it."""

    name = "random_resized_crop_scaled"
    exact = default_stream = "random_resized_crop"
    draw = staticmethod(_draw)

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Return the output size."""
        return self.result_size()
