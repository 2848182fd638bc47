"""Convert keypoints to pixel indices, after all other ops. No randomness."""

import dataclasses
from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.protocol.item_fields import ItemField

FORMATS: Final = ("pixel_xy",)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    at, to = src.view(np.float32), dst.view(np.float32)
    for n in range(src.shape[0]):
        to[n, 0] = np.float64(at[n, 0]) - 0.5
        to[n, 1] = np.float64(at[n, 1]) - 0.5
        for word in range(2, src.shape[1]):
            dst[n, word] = src[n, word]
    return int(src.shape[0])


@register
class ConvertKeypoints(Op):
    """Convert keypoints from edge coordinates to another format."""

    form: Annotated[str, Word(FORMATS), "pixel_xy: the first pixel's center is (0, 0)"] = "pixel_xy"

    moves_pixels = False
    call_options = ()
    kernels = {}
    items = {"keypoints": ItemsKernel(_run)}

    def declare_items(self, state: State) -> State:
        """Return the state in the new format; no other op takes it."""
        state = super().declare_items(state)
        first = ItemField(self.form, "float32", 2)
        return dataclasses.replace(state, items=(first, *state.items[1:]))


convert_keypoints = function(ConvertKeypoints)
