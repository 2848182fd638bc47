"""Convert boxes to another format, in pixels, after all other ops. No randomness."""

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

FORMATS: Final = ("xywh", "cxcywh")
CENTERED: Final = 1


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    at, to = src.view(np.float32), dst.view(np.float32)
    part = 0.5 if params["form"] == CENTERED else 0.0
    for n in range(src.shape[0]):
        left, top = np.float64(at[n, 0]), np.float64(at[n, 1])
        wide, tall = np.float64(at[n, 2]) - left, np.float64(at[n, 3]) - top
        to[n, 0], to[n, 1] = left + part * wide, top + part * tall
        to[n, 2], to[n, 3] = wide, tall
        for word in range(4, src.shape[1]):
            dst[n, word] = src[n, word]
    return int(src.shape[0])


@register
class ConvertBoxes(Op):
    """Convert boxes to another format."""

    form: Annotated[str, Word(FORMATS), "corner or center, then width and height"]

    moves_pixels = False
    call_options = ()
    kernels = {}
    items = {"boxes": ItemsKernel(_run)}

    def declare_items(self, state: State) -> State:
        """Return the state in the new format; no other op takes it."""
        state = super().declare_items(state)
        first = ItemField(self.form, "float32", 4)
        return dataclasses.replace(state, items=(first, *state.items[1:]))


convert_boxes = function(ConvertBoxes)
