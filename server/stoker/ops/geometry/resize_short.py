"""Resize the shorter side to a given length, keeping the ratio of sides; no randomness.

Like torchvision's `Resize(size, max_size=...)`. Memory is planned before the first image is read,
so something must bound the longer side of a thin image: `max_size`, or the sizes in the dataset.
"""

from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.decode_keyword import decoded
from stoker.ops.bases.fit import (
    check_max,
    fit_scratch,
    fit_short,
    short_most,
    short_state,
)
from stoker.ops.bases.resized import Resized
from stoker.ops.bases.resizing import Interpolation
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import OwnRule, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return fit_short(height, width, int(params["size"]), int(params["max_size"]))


MOST: Final = OwnRule(
    lambda _, value: value,
    "an integer from size on, or None",
    (("max_size", "i4"),),
    lambda value: (MAX_SIDE if value is None else value,),
)


@register
class ResizeShort(Resized):
    """Resize the shorter side to a given length, keeping the ratio."""

    size: Annotated[int, Whole(1, MAX_SIDE), "length of the shorter side, in pixels"]
    max_size: Annotated[int | None, MOST, "the most for the longer side, in pixels"] = None
    interpolation: Interpolation = "bilinear"

    examples = (
        {"size": 24, "max_size": 60},
        {"size": 30, "max_size": 31, "interpolation": "nearest"},
        {"size": 17, "max_size": 60, "interpolation": "lanczos"},
    )
    picture = {"size": 100, "max_size": 240}
    varied = {"size": (20, 30), "max_size": (50,)}
    out_size = staticmethod(_out_size)

    def check(self) -> None:
        """Check the parameters; the longer side is not shorter than the shorter one."""
        super().check()
        if self.max_size is not None:
            self.settle(max_size=check_max(self.name, self.size, self.max_size))

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size, or of bounded sizes."""
        self.require_pixels(states)
        need = [
            fit_scratch(s, short_most(s, self.size, self.max_size), self.interpolation)
            for s in states
        ]
        after = [short_state(s, (self.size, self.size), self.max_size) for s in states]
        return tuple(after), max(need, default=0)


@calls(ResizeShort)
def resize_short(call: FunctionCall, decode: str = "exact") -> Any:
    """Resize the shorter side; with `decode="scaled"` the image is decoded at a fraction."""
    return decoded(call, decode, ResizeShort)
