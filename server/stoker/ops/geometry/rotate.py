"""Rotate about the center by a random angle, image and mask alike; the size is kept.

Draw 0 is the angle in degrees, uniform, counter-clockwise as in torchvision's RandomRotation.
Pixels that leave the image are lost, pixels from outside are filled. With `expand=True` nothing
leaves the image: see `rotate_expand`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from stoker.jit import kernel
from stoker.ops.bases.rotated import Rotated
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.geometry.rotate_expand import RotateExpand
from stoker.ops.kernels.affinity import (
    forward,
    move_image,
    move_mask,
    plain_move_image,
    plain_move_mask,
)


@kernel
def _decision(record: Any) -> Any:
    return -float(record["angle"]), 0.0, 0.0, 1.0, 0.0, 0.0


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    move_image(src, dst, _decision(record), params)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    move_mask(src, dst, _decision(record), params)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_move_image(src, dst, _decision(record), params)


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_move_mask(src, dst, _decision(record), params)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return forward(_decision(record), sizes[0], sizes[1])


@register
@dataclass(frozen=True)
class Rotate(Rotated):
    """Rotate about the center; the size is kept.

    Attributes:
        degrees: range of the angle, counter-clockwise: (low, high), or d for (-d, d).
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
    """

    name: ClassVar[str] = "rotate"
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    forward = staticmethod(_forward)
    affine: ClassVar[bool] = True


def rotate(
    *values: Value,
    degrees: float | tuple[float, float],
    interpolation: str = "bilinear",
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    expand: bool = False,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Rotate values of a pipeline about the center; see `Rotate`, and `RotateExpand` for `expand`.

    Raises:
        ParameterError: a parameter is invalid.
    """
    if not isinstance(expand, bool):
        raise checks.refuse(Rotate.name, "expand", "True or False", expand)
    made = RotateExpand if expand else Rotate
    return made(degrees, interpolation, fill, mask_fill)(*values, stream=stream, relative=relative)
