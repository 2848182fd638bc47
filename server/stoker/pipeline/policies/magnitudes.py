"""Transforms with a magnitude, under AutoAugment's names.

Names and ranges are those of Cubuk and others, "AutoAugment: Learning Augmentation Strategies from
Data" (CVPR 2019) and "RandAugment" (NeurIPS 2020), as torchvision's AutoAugment and RandAugment
define them, and of Müller and Hutter, "TrivialAugment" (ICCV 2021), wide space. Geometric ones act
on all values, the others on the first alone, the image. Three things differ: shears keep the center
of the image fixed (there: its upper left corner), shifts are fractions of the image's side, rounded
to a pixel, and a drawn shear is uniform in the angle, as in `Affine` (there: in the tangent).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from stoker import ops
from stoker.ops.contract.op import Op, Value
from stoker.ops.values.choice_ops import Chance, OneOf
from stoker.pipeline.authoring.random_choices import among, tracer_for
from stoker.pipeline.tracing.branches import choose

Values = tuple[Value, ...]
Move = Callable[..., Values]

GEOMETRIC: Final = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
SIGNED: Final = (*GEOMETRIC, "brightness", "color", "contrast", "sharpness")
NAMES: Final = ("identity", *SIGNED, "posterize", "solarize", "autocontrast", "equalize")

_FACTORS: Final = ("brightness", "color", "contrast", "sharpness")
TOPS: Final[Mapping[str, float]] = {
    "shear_x": 0.3,
    "shear_y": 0.3,
    "translate_x": 150 / 331,
    "translate_y": 150 / 331,
    "rotate": 30.0,
    **dict.fromkeys(_FACTORS, 0.9),
}
"""Maxima: tangent of a shear, fraction of a side, degrees, distance of a factor from 1."""

WIDE_TOPS: Final[Mapping[str, float]] = {
    "shear_x": 0.99,
    "shear_y": 0.99,
    "translate_x": 32 / 224,
    "translate_y": 32 / 224,
    "rotate": 135.0,
    **dict.fromkeys(_FACTORS, 0.99),
}
"""TrivialAugment's, wide: shifts of up to 32 pixels at the 224 pixels of ImageNet."""


class Look(NamedTuple):
    """Fill and filter of geometric transforms; see `stoker.ops.Affine`."""

    interpolation: str = "nearest"
    fill: int | tuple[int, ...] = 0
    mask_fill: int = 0


def fixed(name: str, level: int, bins: int, look: Look, path: str) -> Move:
    """Return a transform at a level of `bins`; its sign, if it has one, is drawn.

    Args:
        name: one of NAMES, or "invert".
        level: from 0 to bins - 1.
        bins: how many magnitudes there are.
        look: how geometric transforms fill and filter.
        path: stream names are `path/sign` and `path/name`.
    """
    part = level / (bins - 1)
    if name == "posterize":
        return _always(name, ops.Posterize(8 - round(4 * part), 1.0), path)
    if name == "solarize":
        return _always(name, ops.Solarize(math.ceil(255 - 255 * part), 1.0), path)
    if name not in SIGNED:
        return _always(name, _plain(name), path)
    size = TOPS[name] * part
    either = [_ranged(name, sign * size, sign * size, look) for sign in (1, -1)]

    def move(*values: Value) -> Values:
        tracer = tracer_for(values, path)
        sign = tracer.choose(Chance(0.5), "apply", f"{path}/sign", "sign") == 1
        plus, minus = (_always(name, op, path) for op in either)
        result: Values = choose(sign, lambda: plus(*values), lambda: minus(*values))
        return result

    return move


def wide(name: str, bins: int, look: Look, path: str) -> Move:
    """Return a transform of TrivialAugment's wide space, its magnitude drawn.

    Signed magnitudes are uniform in their range; bits and thresholds are those of `bins` levels,
    all equally likely.
    """
    if name in SIGNED:
        top = WIDE_TOPS[name]
        return _always(name, _ranged(name, -top, top, look), path)
    levels = range(bins)
    if name == "posterize":
        bits = Counter(8 - round(6 * level / (bins - 1)) for level in levels)
        return _one_of(name, {ops.Posterize(b, 1.0): n for b, n in bits.items()}, path)
    if name == "solarize":
        least = Counter(math.ceil(255 - 255 * level / (bins - 1)) for level in levels)
        return _one_of(name, {ops.Solarize(t, 1.0): n for t, n in least.items()}, path)
    return _always(name, _plain(name), path)


def sometimes(move: Move, p: float, path: str) -> Move:
    """Return a transform that happens with probability p, drawn from `path/p`."""
    if p == 1:
        return move

    def maybe(*values: Value) -> Values:
        if p == 0:
            return values
        tracer = tracer_for(values, path)
        applied = tracer.choose(Chance(p), "apply", f"{path}/p", "p") == 1
        result: Values = choose(applied, lambda: move(*values), lambda: values)
        return result

    return maybe


def _plain(name: str) -> Op | None:
    """Return a transform without a magnitude; None for the identity."""
    plain = {"autocontrast": ops.Autocontrast, "equalize": ops.Equalize, "invert": ops.Invert}
    return None if name == "identity" else plain[name](1.0)


def _ranged(name: str, low: float, high: float, look: Look) -> Op:
    """Return a signed transform whose magnitude is uniform in a range."""
    match name:
        case "shear_x":
            return ops.Affine(0, 0, (1, 1), (_angle(low), _angle(high), 0, 0), *look)
        case "shear_y":
            return ops.Affine(0, 0, (1, 1), (0, 0, _angle(low), _angle(high)), *look)
        case "translate_x":
            return ops.Affine(0, (low, high, 0, 0), (1, 1), 0, *look)
        case "translate_y":
            return ops.Affine(0, (0, 0, low, high), (1, 1), 0, *look)
        case "rotate":
            return ops.Rotate((low, high), *look)
    factors = {
        "brightness": ops.Brightness,
        "color": ops.Saturation,
        "contrast": ops.Contrast,
        "sharpness": ops.Sharpness,
    }
    return factors[name]((1 + low, 1 + high), 1.0)


def _angle(tangent: float) -> float:
    return math.degrees(math.atan(tangent))


def _always(name: str, op: Op | None, path: str) -> Move:
    def move(*values: Value) -> Values:
        if op is None:
            return values
        touched = values if name in GEOMETRIC else values[:1]
        results = op(*touched, stream=f"{path}/{name}")
        made = results if isinstance(results, tuple) else (results,)
        return (*made, *values[len(touched) :])

    return move


def _one_of(name: str, weights: Mapping[Op, int], path: str) -> Move:
    moves = [(str(at), _always(name, op, path)) for at, op in enumerate(weights)]

    def move(*values: Value) -> Values:
        level = tracer_for(values, path).choose(
            OneOf(tuple(weights.values())), "choice", f"{path}/level", "level"
        )
        return among(level, moves, values, path)

    return move
