"""Rotate, shift, scale and shear about the center, image and mask alike; the size is kept.

Parameters and matrix are those of torchvision's RandomAffine. Draws: 0 angle (degrees, clockwise),
1 shift to the right and 2 downwards (integer pixels), 3 scale, 4 and 5 shear along x and along y
(degrees); all uniform. Pixels that leave the image are lost, pixels from outside are filled.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.bases.rotated import Filter
from stoker.ops.bases.warped import affine_kernels
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import is_number, refuse
from stoker.ops.contract.parameters import Interval, OwnRule, PerChannel, Range, Span, Spread
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import carried, one_ratio
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.affinity import (
    forward,
    inverse_steps,
)
from stoker.rng.draws import uniform_range
from stoker.rng.maths import floor

MOST_DEGREES: Final = 360.0
MOST_SHEAR: Final = 80.0
MOST_SCALE: Final = 64.0


@kernel
def _shift(key: Any, k: int, low: float, high: float, side: int) -> int:
    return floor(uniform_range(key, k, low * side, high * side) + 0.5)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["angle"] = uniform_range(key, 0, params["degrees_low"], params["degrees_high"])
    record["translate_x"] = _shift(key, 1, params["x_low"], params["x_high"], width)
    record["translate_y"] = _shift(key, 2, params["y_low"], params["y_high"], height)
    record["scale"] = uniform_range(key, 3, params["scale_low"], params["scale_high"])
    record["shear_x"] = uniform_range(key, 4, params["shear_x_low"], params["shear_x_high"])
    record["shear_y"] = uniform_range(key, 5, params["shear_y_low"], params["shear_y_high"])


@kernel
def _decision(record: Any) -> Any:
    angle, scale = float(record["angle"]), float(record["scale"])
    shear_x, shear_y = float(record["shear_x"]), float(record["shear_y"])
    move_x, move_y = float(record["translate_x"]), float(record["translate_y"])
    return angle, shear_x, shear_y, scale, move_x, move_y


@kernel
def _steps(record: Any, before: Any, after: Any) -> Any:
    return inverse_steps(_decision(record), before[0], before[1])


def _translate(op: str, value: object) -> tuple[float, ...]:
    """Return the maximum shifts as fractions of width and height, or both ranges."""
    parts: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(parts) == 4:
        x = Span(-1.0, 1.0).check(op, "translate", parts[:2])
        return *x, *Span(-1.0, 1.0).check(op, "translate", parts[2:])
    if len(parts) == 2 and all(is_number(part) and 0 <= part <= 1 for part in parts):
        return float(parts[0]), float(parts[1])
    raise refuse(op, "translate", "a number from 0 to 1, or (horizontal, vertical)", value)


def _moves(translate: tuple[float, ...]) -> tuple[float, ...]:
    """Return (x low, x high, y low, y high) of checked shifts."""
    if len(translate) == 4:
        return translate
    return -translate[0], translate[0], -translate[1], translate[1]


def _shear(op: str, value: object) -> tuple[float, float, float, float]:
    """Return (x low, x high, y low, y high) of d, of (low, high) for x, or of all four."""
    if isinstance(value, Sequence) and len(value) == 4:
        x = Spread(MOST_SHEAR).check(op, "shear", tuple(value[:2]))
        return *x, *Spread(MOST_SHEAR).check(op, "shear", tuple(value[2:]))
    return *Spread(MOST_SHEAR).check(op, "shear", value), 0.0, 0.0


DEGREES: Final = Spread(MOST_DEGREES)
SCALE: Final = Interval(1 / MOST_SCALE, MOST_SCALE)
MOVES: Final = OwnRule(
    _translate,
    "a number from 0 to 1, (horizontal, vertical), or (x low, x high, y low, y high)",
    tuple((n, "f8") for n in ("x_low", "x_high", "y_low", "y_high")),
    _moves,
)
SHEAR: Final = OwnRule(
    _shear,
    "d for (-d, d), (low, high), or (x low, x high, y low, y high)",
    tuple((f"shear_{n}", "f8") for n in ("x_low", "x_high", "y_low", "y_high")),
)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return forward(_decision(record), sizes[0], sizes[1])


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    height, width, tall, wide = sizes
    record["translate_x"] = carried(np.int64(record["translate_x"]), width, wide)
    record["translate_y"] = carried(np.int64(record["translate_y"]), height, tall)
    return one_ratio(sizes)


@register
class Affine(Fills, Op):
    """Rotate, shift, scale and shear about the center."""

    degrees: Annotated[float | Range, DEGREES, "angle, counter-clockwise"]
    translate: Annotated[PerChannel, MOVES, "shift as a part of the sides"] = 0.0
    scale: Annotated[Range, SCALE, "above 1 enlarges"] = (1.0, 1.0)
    shear: Annotated[PerChannel, SHEAR, "angle of the shear along x, or along both axes"] = 0.0
    interpolation: Filter = "bilinear"
    fill: Fill = 0
    mask_fill: MaskFill = 0

    image_dtypes = LEVELS_FLOATS
    examples = (
        {"degrees": 30, "translate": (0.1, 0.2), "scale": (0.7, 1.4), "shear": 10, "fill": 114},
        {"degrees": 180, "shear": (-20, 20, -9, 30), "interpolation": "nearest", "mask_fill": 7},
        {"degrees": (5, 9), "scale": (0.5, 0.6), "fill": (1, 2, 3, 4)},
    )
    picture = {"degrees": (20, 20), "scale": (0.8, 0.8), "shear": (12, 12)}
    varied = {"degrees": (30,), "translate": (0.1,), "scale": ((0.8, 1.2),), "shear": (5,)}
    random = True
    record = np.dtype(
        [
            ("angle", "f8"),
            ("translate_x", "i4"),
            ("translate_y", "i4"),
            ("scale", "f8"),
            ("shear_x", "f8"),
            ("shear_y", "f8"),
        ]
    )
    kernels = affine_kernels(_steps)
    draw = staticmethod(_draw)
    forward = staticmethod(_forward)
    affine = True
    rescale = staticmethod(_rescale)

    def vector_fault(self, kind: str) -> str | None:
        """Return why the op cannot treat flow or normals: no turn of a surface shears its image."""
        if kind == "normals" and any(cast(tuple[float, ...], self.shear)):
            return "a shear gives them no direction. Use affine without shear for them"
        return super().vector_fault(kind)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        return states, 0


affine = function(Affine)
