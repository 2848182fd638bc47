"""Convert keypoints to pixel indices, after all other ops. No randomness."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract import checks
from stoker.ops.contract.forms import ItemsKernel, Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.protocol.items import ItemField

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
@dataclass(frozen=True)
class ConvertKeypoints(Op):
    """Convert keypoints from edge coordinates to another format.

    Attributes:
        form: pixel_xy: indices of pixels, in which the center of the first pixel is (0, 0), as in
            COCO files, torchvision and Albumentations. Each coordinate becomes 0.5 smaller.
    """

    form: str = "pixel_xy"

    name: ClassVar[str] = "convert_keypoints"
    moves_pixels = False
    kernels: ClassVar[dict[str, Kernel]] = {}
    items: ClassVar[dict[str, ItemsKernel]] = {"keypoints": ItemsKernel(_run)}

    def check(self) -> None:
        """Check the parameters."""
        self.settle(form=checks.choice(self.name, "form", self.form, FORMATS))

    def declare_items(self, state: State) -> State:
        """Return the state in the new format; no other op takes it."""
        state = super().declare_items(state)
        first = ItemField(self.form, "float32", 2)
        return dataclasses.replace(state, items=(first, *state.items[1:]))


def convert_keypoints(*values: Value, form: str = "pixel_xy") -> Any:
    """Convert keypoints of a pipeline to another format; see `ConvertKeypoints`."""
    return ConvertKeypoints(form)(*values)
