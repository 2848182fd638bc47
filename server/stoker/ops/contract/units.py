"""Units of op decisions, for people: "angle" is in degrees, "top" in pixels.

An op defines its own in `Op.units`; names with one meaning in all ops are defined here. A name
without a unit is a plain number: a factor, a switch, an index.
"""

from __future__ import annotations

from typing import Final

from stoker.ops.contract.op import Op

SWITCHES: Final = ("apply", "applied", "flip", "swap", "turns")
"""Record fields that are 0 if the op did not change its values: by probability `p`."""

PIXELS: Final = "px"
DEGREES: Final = "degrees"
COMMON: Final = {
    "angle": DEGREES,
    "shear_x": DEGREES,
    "shear_y": DEGREES,
    "turns": "quarter turns",
    "turn": "turns of the color circle",
    "hue": "turns of the color circle",
    **dict.fromkeys(
        (
            "top", "left", "bottom", "right", "height", "width", "size", "unit", "hole", "corners",
            "translate_x", "translate_y",
        ),
        PIXELS,
    ),
}  # fmt: skip


def unit_of(op: Op | type[Op], field: str) -> str:
    """Return the unit of a field of an op's record; empty for a plain number."""
    return op.units.get(field, COMMON.get(field, ""))


def switch_of(op: Op | type[Op]) -> str | None:
    """Return the record field that is 0 if the op changes nothing; None without such a field."""
    names = op.record.names or ()
    return next((name for name in SWITCHES if name in names), None)
