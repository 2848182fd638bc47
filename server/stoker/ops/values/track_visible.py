"""Give every box or keypoint the field `visible_part`: the visible fraction of it, starting at 1.

After that, every op that moves boxes multiplies it by the fraction of the moved box that is inside
of the image. `filter_boxes(min_visible=...)` reads it; it is delivered as a field of the boxes.
Keypoints with the field are no longer removed when they leave the image: it becomes 0, and stays 0.
"""

import dataclasses
from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import VISIBLE, visible_word
from stoker.ops.contract.states import State, StateError
from stoker.protocol.item_fields import ItemField, item_words


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    count, words = src.shape
    parts = dst.view(np.float32)
    for n in range(count):
        for word in range(words):
            dst[n, word] = src[n, word]
        parts[n, words] = 1.0
    return int(count)


@register
class TrackVisible(Op):
    """Give every box or keypoint the field `visible_part`."""

    moves_pixels = False
    call_options = ()
    kernels = {}
    items = {
        "boxes": ItemsKernel(_run),
        "keypoints": ItemsKernel(_run),
    }

    def declare_items(self, state: State) -> State:
        """Return the state with one more field.

        Raises:
            StateError: they already have a field `visible_part`, besides
                `Op.declare_items`'s reasons.
        """
        state = super().declare_items(state)
        if visible_word(state):
            raise StateError(f"{self.name}: {state} already have a field {VISIBLE!r}", op=self.name)
        items = (*state.items, ItemField(VISIBLE, "float32"))
        words = item_words(items)
        return dataclasses.replace(
            state, items=items, shape=(None, words), bound=(state.bound[0], words)
        )


track_visible = function(TrackVisible)
