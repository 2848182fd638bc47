"""Convert values to another dtype without changing them. No randomness.

Allowed only if the new dtype can hold every value exactly, or if a float is rounded to a shorter
float (to nearest, halves to even; values that are too large become infinite, NaN becomes 0x7E00 as
float16). Nothing is scaled: use normalize for that. An image that is no longer uint8 is an array:
ops on pixels must come before.

Kernels see a float16 result as uint16 bits, see `stoker.ops.contract.states.storage`.
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
from stoker.ops.kernels.half import narrow_run, to_halves

DTYPES: Final = (
    "uint8",
    "uint16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
)
LINE: Final = 1024
"""Values that are converted to float16 at a time."""
ZERO: Final = np.uint64(0)


@kernel
def convert(source: Any, at: Any, count: Any, result: Any, to: Any) -> None:
    """Write `count` values of a flat array, from index `at` on, to another of any dtype."""
    for i in range(count):
        result[to + i] = source[at + i]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    source, result = src.reshape(src.size), dst.reshape(dst.size)
    if not params["half"]:
        convert(source, ZERO, np.uint64(source.size), result, ZERO)
        return
    line = scratch[: 4 * LINE].view(np.float32)
    for start in range(0, source.size, LINE):
        at, count = np.uint64(start), np.uint64(min(LINE, source.size - start))
        convert(source, at, count, line, ZERO)
        narrow_run(line, ZERO, count, result, at)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if params["half"]:
        dst[...] = to_halves(src.astype(np.float32))
    else:
        with np.errstate(over="ignore"):
            dst[...] = src.astype(dst.dtype)


def holds(dtype: str, source: str) -> bool:
    """Whether a dtype can hold every value of another, or is a shorter float."""
    if source == "float16":
        return dtype == "float16"
    shorter = source in ("float32", "float64") and dtype in ("float16", "float32")
    return shorter or np.can_cast(source, dtype, "safe")


@register
class Cast(Op):
    """Convert values to another dtype."""

    dtype: Annotated[str, Word(DTYPES), "dtype of the result"]

    image_dtypes = ANY_DTYPE
    examples = ({"dtype": "float16"}, {"dtype": "float32"}, {"dtype": "int64"})
    version = 2
    parameters = np.dtype([("half", "u1")])
    kernels = {kind: Kernel(_run, _plain) for kind in ("image", "mask", "array", "label", "scalar")}
    rescale = staticmethod(keep_record)
    affine = True

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.dtype == "float16",), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the dtype, and the bytes of a line if that is float16.

        Raises:
            StateError: the dtype cannot hold the values, besides `Op.declare`'s reasons.
        """
        self.require_kinds(states)
        for state in states:
            if not holds(self.dtype, state.dtype):
                expected = f"a dtype whose values {self.dtype} holds"
                raise refuse(self.name, expected, state, "Cast to a dtype that holds them")
        need = 4 * LINE if self.dtype == "float16" else 0
        return tuple(self._after(state) for state in states), need

    def _after(self, state: State) -> State:
        leaves = state.kind == "image" and self.dtype != state.dtype
        return State("array" if leaves else state.kind, self.dtype, state.shape, state.bound)


cast = function(Cast)
