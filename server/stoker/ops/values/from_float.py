"""Convert images of floats from 0 to 1 back to levels: 255 * x, uint8. No randomness.

Rounded to nearest, halves up; values below 0 become 0, above 1 255, and NaN becomes 0.
The inverse of to_float: every level is restored exactly. 255 * x is exact in float64.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import FLOAT, refuse, require_image
from stoker.ops.contract.states import State

ZERO: Final = np.float64(0)
MOST: Final = np.float64(255)
HALF: Final = np.float64(0.5)


@kernel
def level_of(value: Any) -> Any:
    """Return the level nearest to a value, which is in units of 1 / 255 of a level."""
    scaled = np.float64(value) * MOST
    scaled = scaled if scaled > ZERO else ZERO
    scaled = scaled if scaled < MOST else MOST
    return np.uint8(np.int32(scaled + HALF))


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, levels = src.reshape(src.size), dst.reshape(dst.size)
    for i in range(np.uint64(image.size)):
        levels[i] = level_of(image[i])


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    scaled = src.astype(np.float64) * MOST
    dst[...] = np.where(scaled > ZERO, np.minimum(scaled, MOST), ZERO) + HALF


@register
class FromFloat(Op):
    """Convert images of float32 from 0 to 1 to levels, 0 to 255."""

    image_dtypes = (FLOAT,)
    of_levels = True
    clips_floats = True
    kernels = {"image": Kernel(_run, _plain)}
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of dtype uint8.

        Raises:
            StateError: an image already has levels, besides `Op.declare`'s reasons.
        """
        self.require_kinds(states)
        for state in states:
            if state.dtype == "uint8":
                raise refuse(self.name, "an image of floats", state, "It has levels already")
            require_image(self.name, state, self.image_dtypes, self.image_channels)
        return tuple(State(s.kind, "uint8", s.shape, s.bound) for s in states), 0


from_float = function(FromFloat)
