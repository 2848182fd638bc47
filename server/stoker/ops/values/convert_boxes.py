"""Convert boxes to another format, in pixels, after all other ops. No randomness."""

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
@dataclass(frozen=True)
class ConvertBoxes(Op):
    """Convert boxes to another format.

    Attributes:
        form: xywh (left, top, width, height) or cxcywh (center, width, height).
    """

    form: str

    name: ClassVar[str] = "convert_boxes"
    moves_pixels = False
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("form", "u1")])
    kernels: ClassVar[dict[str, Kernel]] = {}
    items: ClassVar[dict[str, ItemsKernel]] = {"boxes": ItemsKernel(_run)}

    def check(self) -> None:
        """Check the parameters."""
        self.settle(form=checks.choice(self.name, "form", self.form, FORMATS))

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((FORMATS.index(self.form),), self.parameters)

    def declare_items(self, state: State) -> State:
        """Return the state in the new format; no other op takes it."""
        state = super().declare_items(state)
        first = ItemField(self.form, "float32", 4)
        return dataclasses.replace(state, items=(first, *state.items[1:]))


def convert_boxes(*values: Value, form: str) -> Any:
    """Convert boxes of a pipeline to another format; see `ConvertBoxes`."""
    return ConvertBoxes(form)(*values)
