"""The parts that crops to a fixed size share: the parameter `size`, and states of that size."""

from dataclasses import dataclass
from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.fills import Fills
from stoker.ops.contract import checks
from stoker.ops.contract.op import Op
from stoker.ops.contract.rules import require_pixels
from stoker.ops.contract.states import State


@kernel
def asked_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    """Return the size of the window, for any image size."""
    return int(params["height"]), int(params["width"])


@dataclass(frozen=True)
class Cropped(Fills, Op):
    """Base of crops to a fixed size.

    Attributes:
        size: output side, or (height, width), in pixels.
    """

    size: int | tuple[int, int]

    out_size = staticmethod(asked_size)

    def checked(self) -> dict[str, Any]:
        """Return size and fills in their canonical form."""
        return {"size": self.sides(), **self.checked_fills()}

    def sides(self) -> tuple[int, int]:
        """Return height and width of the window."""
        return checks.pair(self.name, "size", self.size, 1)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the output size."""
        self.require_kinds(states)
        require_pixels(self.name, states, floats=True)
        self.require_fills(states)
        size = self.sides()
        return tuple(state.resized(*size, size) for state in states), 0
