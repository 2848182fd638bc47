"""Rotate about the center by a random angle, image and mask alike; the size is kept.

Draw 0 is the angle in degrees, uniform, counter-clockwise as in torchvision's RandomRotation.
Pixels that leave the image are lost, pixels from outside are filled. With `expand=True` nothing
leaves the image: see `rotate_expand`.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.rotated import Rotated
from stoker.ops.bases.warped import affine_kernels
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameter_limits import refuse
from stoker.ops.contract.registry import register
from stoker.ops.geometry.rotate_expand import RotateExpand
from stoker.ops.kernels.affinity import (
    forward,
    inverse_steps,
)


@kernel
def _decision(record: Any) -> Any:
    return -float(record["angle"]), 0.0, 0.0, 1.0, 0.0, 0.0


@kernel
def _steps(record: Any, before: Any, after: Any) -> Any:
    return inverse_steps(_decision(record), before[0], before[1])


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return forward(_decision(record), sizes[0], sizes[1])


@register
class Rotate(Rotated):
    """Rotate about the center; the size is kept."""

    examples = ({"degrees": 45}, {"degrees": (80, 100), "interpolation": "nearest", "fill": 9})
    picture = {"degrees": (30, 30)}
    varied = {"degrees": (20, 180)}
    kernels = affine_kernels(_steps)
    forward = staticmethod(_forward)


@calls(Rotate)
def rotate(call: FunctionCall, expand: bool = False) -> Any:
    """Rotate; with `expand`, the result is as large as the rotated image: see `RotateExpand`."""
    if not isinstance(expand, bool):
        raise refuse(Rotate.name, "expand", "True or False", expand)
    return call(RotateExpand if expand else Rotate)
