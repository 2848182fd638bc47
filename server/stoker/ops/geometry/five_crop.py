"""Five crops, and ten: the corners and the center, as torchvision's FiveCrop and TenCrop.

    crops = ops.five_crop(sample.image, size=224)
    image = ops.stack(*(ops.normalize(crop, layout="CHW") for crop in crops))

Compositions of corner_crop, center_crop and mirror; nothing is drawn.
"""

from typing import Any

from stoker.ops.contract.op import Value
from stoker.ops.geometry.center_crop import CenterCrop
from stoker.ops.geometry.corner_crop import CORNERS, CornerCrop
from stoker.ops.geometry.mirror import Mirror


def five_crop(
    *values: Value,
    size: int | tuple[int, int],
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
) -> tuple[Any, ...]:
    """Cut the four corners and the center out of values of a pipeline.

    Args:
        values: an image, or an image with masks, boxes and keypoints.
        size: side of the crops, or (height, width), in pixels.
        fill: gray level outside of images that are too small, or one for each channel.
        mask_fill: class outside of such masks.

    Returns:
        The crops top left, top right, bottom left, bottom right and center; each is one value,
        or a tuple with one per argument.

    Raises:
        ParameterError: a parameter is out of range.
    """
    corners = [CornerCrop(size, corner, fill, mask_fill)(*values) for corner in CORNERS]
    return (*corners, CenterCrop(size, fill, mask_fill)(*values))


def ten_crop(
    *values: Value,
    size: int | tuple[int, int],
    vertical_flip: bool = False,
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
) -> tuple[Any, ...]:
    """Cut the four corners and the center out of values of a pipeline and of their mirror image.

    Args:
        values: as for `five_crop`.
        size: as for `five_crop`.
        vertical_flip: mirror top and bottom instead of left and right.
        fill: as for `five_crop`.
        mask_fill: as for `five_crop`.

    Returns:
        The five crops of `five_crop`, then those of the mirrored values.

    Raises:
        ParameterError: a parameter is out of range.
    """
    mirrored = Mirror("vertical" if vertical_flip else "horizontal")(*values)
    behind = mirrored if isinstance(mirrored, tuple) else (mirrored,)
    first = five_crop(*values, size=size, fill=fill, mask_fill=mask_fill)
    return (*first, *five_crop(*behind, size=size, fill=fill, mask_fill=mask_fill))
