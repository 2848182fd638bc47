"""Move the channels of images and arrays to the front (CHW) or to the end (HWC). No randomness.

An image is HWC and becomes an array; an array of three sides is assumed to be in the other order.
Values do not change and may have any dtype.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE, refuse
from stoker.ops.contract.states import State

ORDERS: Final = ("CHW", "HWC")
PLANAR: Final = 0
AXES: Final = {"CHW": (2, 0, 1), "HWC": (1, 2, 0)}
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def spread(source: Any, channels: int, result: Any) -> None:
    """Write a flat HWC array as planes, one for each channel."""
    plane = np.uint64(source.size // channels)
    if channels == 3:
        for i in range(plane):
            k = K3 * i
            result[i] = source[k]
            result[plane + i] = source[k + K1]
            result[K2 * plane + i] = source[k + K2]
    else:
        step = np.uint64(channels)
        for c in range(step):
            for i in range(plane):
                result[c * plane + i] = source[step * i + c]


@kernel
def gather(source: Any, channels: int, result: Any) -> None:
    """Write flat planes as pixels: the inverse of `spread`."""
    plane, step = np.uint64(source.size // channels), np.uint64(channels)
    for c in range(step):
        for i in range(plane):
            result[step * i + c] = source[c * plane + i]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if params["order"] == PLANAR:
        spread(src.reshape(src.size), src.shape[2], dst.reshape(dst.size))
    else:
        gather(src.reshape(src.size), src.shape[0], dst.reshape(dst.size))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src.transpose(AXES[ORDERS[int(params["order"])]])


@register
class Layout(Op):
    """Move the channels to the front or to the end."""

    order: Annotated[str, Word(ORDERS), "order of the result: CHW or HWC"] = "CHW"

    image_dtypes = ANY_DTYPE
    kernels = {
        "image": Kernel(_run, _plain),
        "array": Kernel(_run, _plain),
    }
    rescale = staticmethod(keep_record)
    affine = True

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of kind array, with sides in the new order.

        Raises:
            StateError: an image is to become HWC, which it is already, or an array does not have
                three sides.
        """
        self.require_kinds(states)
        for state in states:
            if len(state.shape) != 3:
                raise refuse(self.name, "three sides", state, "Leave it out of this call")
            if state.kind == "image" and self.order == "HWC":
                raise refuse(self.name, "an array in CHW", state, "An image is in HWC already")
        return tuple(self._after(state) for state in states), 0

    def _after(self, state: State) -> State:
        shape, bound = (
            tuple(sides[axis] for axis in AXES[self.order]) for sides in (state.shape, state.bound)
        )
        return State("array", state.dtype, shape, bound)  # type: ignore[arg-type]


layout = function(Layout)
