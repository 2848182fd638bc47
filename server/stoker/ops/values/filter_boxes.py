"""Remove boxes that are too small, or of which too little is visible. No randomness.

All fields of a box go with it. `min_visible` needs `track_visible` before the ops that may
cut boxes off.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract import checks
from stoker.ops.contract.forms import ItemsKernel, Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import VISIBLE, visible_word
from stoker.ops.contract.states import State, StateError

MOST_AREA = float(checks.MAX_SIDE) ** 2


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    at = src.view(np.float32)
    last, kept = src.shape[1] - 1, 0
    for n in range(src.shape[0]):
        wide = np.float64(at[n, 2]) - np.float64(at[n, 0])
        tall = np.float64(at[n, 3]) - np.float64(at[n, 1])
        small = wide < params["min_side"] or tall < params["min_side"]
        hidden = params["tracked"] and np.float64(at[n, last]) < params["min_visible"]
        if small or hidden or wide * tall < params["min_area"]:
            continue
        for word in range(src.shape[1]):
            dst[kept, word] = src[n, word]
        kept += 1
    return kept


@register
@dataclass(frozen=True)
class FilterBoxes(Op):
    """Remove small and hidden boxes.

    Attributes:
        min_area: minimum area of kept boxes, in pixels.
        min_side: minimum width and height of kept boxes, in pixels.
        min_visible: minimum visible fraction of kept boxes, from 0 to 1; 0: not checked.
    """

    min_area: float = 0.0
    min_side: float = 0.0
    min_visible: float = 0.0

    name: ClassVar[str] = "filter_boxes"
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("min_area", "f8"), ("min_side", "f8"), ("min_visible", "f8"), ("tracked", "u1")]
    )
    kernels: ClassVar[dict[str, Kernel]] = {}
    items: ClassVar[dict[str, ItemsKernel]] = {"boxes": ItemsKernel(_run)}

    def check(self) -> None:
        """Check the parameters."""
        number = checks.number
        self.settle(
            min_area=number(self.name, "min_area", self.min_area, 0.0, MOST_AREA),
            min_side=number(self.name, "min_side", self.min_side, 0.0, checks.MAX_SIDE),
            min_visible=number(self.name, "min_visible", self.min_visible, 0.0, 1.0),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        values = (self.min_area, self.min_side, self.min_visible, self.min_visible > 0.0)
        return np.array(values, self.parameters)

    def declare_items(self, state: State) -> State:
        """Return the state unchanged.

        Raises:
            StateError: `min_visible` is set but the boxes are not tracked, besides
                `Op.declare_items`'s reasons.
        """
        state = super().declare_items(state)
        if self.min_visible > 0.0 and visible_word(state) != state.shape[1] - 1:  # type: ignore[operator]
            raise StateError(
                f"{self.name}: min_visible needs the field {VISIBLE!r}, which {state} do not have: "
                "call track_visible(boxes) before the ops that may cut boxes off",
                op=self.name,
            )
        return state


def filter_boxes(
    *values: Value, min_area: float = 0.0, min_side: float = 0.0, min_visible: float = 0.0
) -> Any:
    """Remove small and hidden boxes of a pipeline; see `FilterBoxes`."""
    return FilterBoxes(min_area, min_side, min_visible)(*values)
