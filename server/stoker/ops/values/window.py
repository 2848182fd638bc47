"""Map a window of an image's numbers to 0 to 1, as a viewer of CT images does. No randomness.

(x - (center - width / 2)) / width in float64, clipped to 0 to 1, then rounded to float32. It is
DICOM's VOI LUT function LINEAR_EXACT (PS3.3, C.11.2.1.3.2) with an output from 0 to 1. NaN becomes
0. The value remains an image.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Number
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE, FLOAT
from stoker.ops.contract.states import State

LEAST, MOST = 1e-6, 1e9
"""Least and greatest width of a window; the latter is also its greatest distance from 0."""
ZERO: Final = np.float64(0)
ONE: Final = np.float64(1)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, made = src.reshape(src.size), dst.reshape(dst.size)
    low, gain = params["low"], params["gain"]
    for i in range(np.uint64(image.size)):
        part = (np.float64(image[i]) - low) * gain
        part = part if part > ZERO else ZERO
        made[i] = np.float32(part if part < ONE else ONE)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    with np.errstate(all="ignore"):
        part = (src.astype(np.float64) - params["low"]) * params["gain"]
    dst[...] = np.where(part > 0, np.minimum(part, 1), 0)


@register
class Window(Op):
    """Map the numbers of a window, center - width / 2 to center + width / 2, to 0 to 1."""

    center: Annotated[float, Number(-MOST, MOST), "middle of the window, in the image's numbers"]
    width: Annotated[float, Number(LEAST, MOST), "its width"]

    image_dtypes = ANY_DTYPE
    examples = ({"center": 100, "width": 50}, {"center": 0.5, "width": 0.25})
    parameters = np.dtype([("low", "f8"), ("gain", "f8")])
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run, _plain)}
    wide = {"image": Kernel(_run, _plain)}
    rescale = staticmethod(keep_record)

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.center - self.width / 2, 1 / self.width), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of dtype float32."""
        self.require_pixels(states)
        return tuple(State(s.kind, FLOAT, s.shape, s.bound) for s in states), 0


window = function(Window)
