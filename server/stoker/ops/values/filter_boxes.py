"""Remove boxes that are too small, or of which too little is visible. No randomness.

All fields of a box go with it. `min_visible` needs `track_visible` before the ops that may
cut boxes off.

Corners and visible parts are float32, and each op that moves a box rounds them once. A box is
removed only if it is below a limit by more than four such roundings: a box of which 7/100 is
visible passes min_visible=0.07, and one of 19.2 pixels passes min_side=19.2. An empty box gets no
such allowance.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Number
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import VISIBLE, visible_word
from stoker.ops.contract.states import State, StateError

MOST_AREA = float(MAX_SIDE) ** 2
ROUNDINGS: Final = 4 * 2.0**-24
"""The most that four roundings to float32 change a number, as a part of it."""


@kernel
def longest(low: Any, high: Any) -> Any:
    """Return the longest side, in pixels, that two edges may have had before they were rounded."""
    start, end = np.float64(low), np.float64(high)
    side = end - start
    return side + (abs(start) + abs(end)) * ROUNDINGS if side > 0.0 else side


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    at = src.view(np.float32)
    last, kept = src.shape[1] - 1, 0
    for n in range(src.shape[0]):
        wide, tall = longest(at[n, 0], at[n, 2]), longest(at[n, 1], at[n, 3])
        small = wide < params["min_side"] or tall < params["min_side"]
        part = np.float64(at[n, last]) * (1.0 + ROUNDINGS)
        hidden = params["min_visible"] > 0.0 and part < params["min_visible"]
        if small or hidden or wide * tall < params["min_area"]:
            continue
        for word in range(src.shape[1]):
            dst[kept, word] = src[n, word]
        kept += 1
    return kept


@register
class FilterBoxes(Op):
    """Remove small and hidden boxes."""

    min_area: Annotated[float, Number(0.0, MOST_AREA), "smallest area, in pixels"] = 0.0
    min_side: Annotated[float, Number(0.0, MAX_SIDE), "shortest side, in pixels"] = 0.0
    min_visible: Annotated[float, Number(0.0, 1.0), "smallest visible part"] = 0.0

    moves_pixels = False
    call_options = ()
    version = 2
    kernels = {}
    items = {"boxes": ItemsKernel(_run)}

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


filter_boxes = function(FilterBoxes)
