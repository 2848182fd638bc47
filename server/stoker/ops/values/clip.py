"""Replace numbers of images that are outside of two bounds by the nearer bound, as `numpy.clip`.

The dtype stays. NaN stays NaN. No randomness.
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
from stoker.ops.contract.states import State, StateError

MOST = 1e30
"""Greatest distance of a bound from 0."""

BOUND: Final = Number(-MOST, MOST)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, made = src.reshape(src.size), dst.reshape(dst.size)
    low, high = np.int32(params["low"]), np.int32(params["high"])
    for i in range(np.uint64(image.size)):
        level = np.int32(image[i])
        made[i] = low if level < low else (high if level > high else level)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = np.clip(src, src.dtype.type(params["low"]), src.dtype.type(params["high"]))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, made = src.reshape(src.size), dst.reshape(dst.size)
    low, high = np.float32(params["low"]), np.float32(params["high"])
    for i in range(np.uint64(image.size)):
        x = image[i]
        made[i] = low if x < low else (high if x > high else x)


@register
class Clip(Op):
    """Replace numbers of images below `low` by `low`, and numbers above `high` by `high`."""

    low: Annotated[float, BOUND, "least number, in the image's own unit"]
    high: Annotated[float, BOUND, "greatest number, at least low"]

    image_dtypes = ANY_DTYPE
    examples = ({"low": 20, "high": 200}, {"low": 0, "high": 1})
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run_floats, _plain)}
    wide = {"image": Kernel(_run, _plain)}
    rescale = staticmethod(keep_record)

    def check(self) -> None:
        """Check the parameters, and their order."""
        given = self.high
        super().check()
        Number(self.low, MOST).check(self.name, "high", given)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged.

        Raises:
            StateError: an image of integers cannot have one of the bounds.
        """
        self.require_pixels(states)
        for state in states:
            for name, bound in (("low", self.low), ("high", self.high)):
                if state.dtype != FLOAT and not _holds(state.dtype, bound):
                    raise StateError(
                        f"clip: {name}={bound:g}: expected a number that {state} can have, an"
                        f" integer from {np.iinfo(state.dtype).min} to"
                        f" {np.iinfo(state.dtype).max}",
                        op=self.name,
                        state=str(state),
                    )
        return states, 0


def _holds(dtype: str, bound: float) -> bool:
    info = np.iinfo(dtype)
    return info.min <= bound <= info.max and float(bound).is_integer()


clip = function(Clip)
