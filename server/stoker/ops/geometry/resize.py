"""Resize to a fixed size; image and mask alike, without randomness.

Images are filtered (antialiased, as in Pillow); masks take the nearest class, never a new one.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.decode_keyword import decoded
from stoker.ops.bases.resized import Resized
from stoker.ops.bases.resizing import Interpolation, resize_scratch
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameter_limits import MAX_SIDE, is_integer, refuse
from stoker.ops.contract.parameters import OwnRule
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import ParameterError, State


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


def _sides(op: str, size: object) -> tuple[int, int]:
    """Return (height, width), and refuse a single side, which could mean a square or a ratio."""
    if is_integer(size):
        raise ParameterError(
            f"{op}: expected size to be (height, width), got {size}; for a square give "
            f"({size}, {size}), and to scale the shorter side use "
            f"resize_short(size={size})",
            op=op,
        )
    sides = tuple(size) if isinstance(size, Sequence) else ()
    if len(sides) != 2 or not all(is_integer(s) and 1 <= s <= MAX_SIDE for s in sides):
        raise refuse(op, "size", f"(height, width), from 1 to {MAX_SIDE}", size)
    return int(sides[0]), int(sides[1])


SIZE: Final = OwnRule(_sides, "(height, width)", (("height", "i4"), ("width", "i4")))


@register
class Resize(Resized):
    """Resize to a fixed size."""

    size: Annotated[tuple[int, int], SIZE, "(height, width) of the result, in pixels"]
    interpolation: Interpolation = "bilinear"

    examples = (
        {"size": (24, 33)},
        {"size": (7, 11), "interpolation": "bicubic"},
        {"size": (50, 20), "interpolation": "nearest"},
        {"size": (24, 90), "interpolation": "lanczos"},
        {"size": (90, 13), "interpolation": "area"},
    )
    picture = {"size": (160, 120)}
    varied = {"size": ((32, 24), (32, 48))}
    out_size = staticmethod(_out_size)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size."""
        self.require_pixels(states)
        need = resize_scratch(states, self.size, self.interpolation)
        return tuple(state.resized(*self.size, self.size) for state in states), need


@calls(Resize)
def resize(call: FunctionCall, decode: str = "exact") -> Any:
    """Resize to a fixed size; with `decode="scaled"` the image is decoded at a fraction."""
    return decoded(call, decode, Resize)
