"""Convert the levels of images to floats: level / 255, float32. No randomness.

The quotient is computed in float64 (level * (1 / 255)) and rounded to float32: for all 256 levels
it is the float32 nearest to level / 255, as in PyTorch's division. Levels of uint16 are divided by
65535, the same way. The value remains an image.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import FLOAT, SIGNED, WIDE, WINDOW, refuse, require_image
from stoker.ops.contract.states import State
from stoker.ops.kernels.color_floats import PART, WIDE_PART


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    levels, image = src.reshape(src.size), dst.reshape(dst.size)
    for i in range(np.uint64(levels.size)):
        image[i] = np.float32(np.float64(levels[i]) * PART)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src * PART


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    levels, image = src.reshape(src.size), dst.reshape(dst.size)
    for i in range(np.uint64(levels.size)):
        image[i] = np.float32(np.float64(levels[i]) * WIDE_PART)


def _plain_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src * WIDE_PART


@register
class ToFloat(Op):
    """Convert the levels of images, 0 to 255 or 0 to 65535, to float32 from 0 to 1."""

    image_dtypes = ("uint8", WIDE)
    kernels = {"image": Kernel(_run, _plain)}
    wide = {"image": Kernel(_run_wide, _plain_wide)}
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of dtype float32."""
        self.require_kinds(states)
        for state in states:
            if state.dtype == SIGNED:
                remedy = f"Call {WINDOW} instead, because int16 has no white to divide by"
                raise refuse(self.name, "an image of uint8 or uint16", state, remedy)
            require_image(self.name, state, self.image_dtypes, self.image_channels)
        return tuple(State(s.kind, FLOAT, s.shape, s.bound) for s in states), 0


to_float = function(ToFloat)
