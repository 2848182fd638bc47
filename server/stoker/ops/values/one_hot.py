"""Turn class numbers into vectors with a one at the class: labels, masks. No randomness.

A new last side has one value for each class. A number outside of [0, classes), such as the 255 that
marks pixels to ignore, gives zeros.

Kernels see a float16 result as uint16 bits, see `stoker.ops.contract.states.storage`.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Whole, Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import refuse
from stoker.ops.contract.states import State, StateError

DTYPES: Final = ("float32", "float16", "uint8")
HALF_ONE: Final = 0x3C00
"""Bits of float16 1."""


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    source, result = src.reshape(src.size), dst.reshape(dst.size)
    classes, one = np.int64(params["classes"]), params["one"]
    result[:] = 0
    for i in range(source.size):
        number = np.int64(source[i])
        if 0 <= number < classes:
            result[i * classes + number] = one


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    classes = np.arange(int(params["classes"]))
    hot = src.astype(np.int64)[..., None] == classes
    dst[...] = np.where(hot, params["one"], 0).reshape(dst.shape)


@register
class OneHot(Op):
    """Turn class numbers into vectors."""

    classes: Annotated[int, Whole(1, MAX_SIDE), "number of classes"]
    dtype: Annotated[str, Word(DTYPES), "float32, float16 or uint8"] = "float32"

    examples = ({"classes": 7}, {"classes": 200, "dtype": "float16"})
    parameters = np.dtype([("classes", "i4"), ("one", "u2")])
    kernels = {kind: Kernel(_run, _plain) for kind in ("label", "mask", "scalar")}
    rescale = staticmethod(keep_record)

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        one = HALF_ONE if self.dtype == "float16" else 1
        return np.array((self.classes, one), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of kind array with one more side.

        Raises:
            StateError: numbers are not integers, or the field has more classes, besides the
                reasons of `Op.declare`.
        """
        self.require_kinds(states)
        for state in states:
            if np.dtype(state.dtype).kind not in "iu":
                raise refuse(self.name, "integers", state, "Classes are numbers from 0 on")
            self._require_room(state)
        return tuple(self._after(state) for state in states), 0

    def _require_room(self, state: State) -> None:
        """Refuse a field that has more classes: their vectors would be all zero."""
        names, last = state.classes, state.span[1] if state.span else -1
        if state.kind in ("label", "mask") and len(names) > self.classes:
            has = f"{len(names)} classes ({', '.join(names[:3])}, ...)"
        elif state.kind == "label" and last >= self.classes:
            has = f"numbers up to {last:.0f}"
        else:
            return
        first = int(state.span[0]) if state.span else 0
        shift = f", or subtract the first number from it, {first}" if first > 0 else ""
        raise StateError(
            f"classes={self.classes}, but the {state.kind} has {has} in the dataset: numbers from "
            f"{self.classes} on would become vectors of zeros. Give "
            f"classes={max(len(names), int(last) + 1)}{shift}",
            op=self.name,
            state=str(state),
        )

    def _after(self, state: State) -> State:
        shape, bound = (*state.shape, self.classes), (*state.bound, self.classes)
        return State("array", self.dtype, shape, bound)


one_hot = function(OneHot)
