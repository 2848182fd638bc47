"""Resize the longer side to a given length, keeping the ratio of sides; no randomness."""

from typing import Annotated, Any

from stoker.jit import kernel
from stoker.ops.bases.decode_keyword import decoded
from stoker.ops.bases.fit import fit_long, fit_scratch
from stoker.ops.bases.resized import Resized
from stoker.ops.bases.resizing import Interpolation
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return fit_long(height, width, int(params["size"]))


@register
class ResizeLong(Resized):
    """Resize the longer side to a given length, keeping the ratio."""

    size: Annotated[int, Whole(1, MAX_SIDE), "length of the longer side, in pixels"]
    interpolation: Interpolation = "bilinear"

    examples = (
        {"size": 40},
        {"size": 21, "interpolation": "bicubic"},
        {"size": 33, "interpolation": "area"},
    )
    picture = {"size": 120}
    varied = {"size": (30, 40)}
    out_size = staticmethod(_out_size)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size, or of a bounded size."""
        self.require_pixels(states)
        most = (self.size, self.size)
        need = [fit_scratch(s, most, self.interpolation) for s in states]
        return tuple(self._fitted(s) for s in states), max(need, default=0)

    def _fitted(self, state: State) -> State:
        height, width = state.shape[:2]
        if height is None or width is None:
            return state.resized(None, None, (self.size, self.size))
        tall, wide = fit_long(height, width, self.size)
        return state.resized(tall, wide, (tall, wide))


@calls(ResizeLong)
def resize_long(call: FunctionCall, decode: str = "exact") -> Any:
    """Resize the longer side; with `decode="scaled"` the image is decoded at a fraction."""
    return decoded(call, decode, ResizeLong)
