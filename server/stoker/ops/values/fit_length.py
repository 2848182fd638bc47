"""Cut sequences to the length of the sample's bucket; shorter ones are copied.

The kept elements are the first ones, the last ones, or those from draw 0 on, uniformly. Values of
one call must have the same length, and keep the same elements.

The length follows from the row's place in the stream: without a `length` it is
`ctx.bucket_length` of the pipeline.
"""

import dataclasses
from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import OwnRule, Whole, Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import refuse
from stoker.ops.contract.states import ParameterError, State
from stoker.protocol.size_buckets import MAX_LENGTH
from stoker.rng.draws import integers

KEEPS: Final = ("first", "last", "random")
LAST, RANDOM = 1, 2
LENGTH: Final = "stoker.bucket_length"
NO_SIZE: Final = -1
"""Reported as the size of a value whose length differs from the first of its call: not a size."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    left_out = max(height - int(params["length"]), 0)
    start = 0
    if params["keep"] == LAST:
        start = left_out
    elif params["keep"] == RANDOM:
        start = int(integers(key, 0, left_out + 1))
    record["start"] = start
    record["length"] = height


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    if height != record["length"]:
        return NO_SIZE, width
    return min(height, int(params["length"])), width


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    source, result = src.reshape(src.size), dst.reshape(dst.size)
    inner = result.size // max(dst.shape[0], 1)
    start = int(record["start"]) * inner
    for i in range(result.size):
        result[i] = source[start + i]


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    start = int(record["start"])
    dst[...] = src[start : start + len(dst)]


def _length(op: str, value: object) -> int | None:
    return None if value is None else Whole(1, MAX_LENGTH).check(op, "length", value)


def known_length(op: str, length: int | None) -> int:
    """Return a length of the parameters.

    Raises:
        ParameterError: it is None.
    """
    if length is None:
        raise ParameterError(
            f"{op}: without a length it takes that of the sample's bucket, which is known only in "
            "a pipeline; give a length, such as length=512"
        )
    return length


LENGTHS: Final = OwnRule(
    _length,
    f"an integer from 1 to {MAX_LENGTH}, or None",
    (("length", "i4"),),
    lambda length: (known_length("fit_length", length),),
)


@register
class FitLength(Op):
    """Cut sequences to the length of the sample's bucket."""

    length: Annotated[int | None, LENGTHS, "most elements; None: as the sample's bucket"] = None
    keep: Annotated[str, Word(KEEPS), "which elements of a longer one"] = "first"

    moves_pixels = False
    call_options = ("stream",)
    examples = ({"length": 20}, {"length": 7, "keep": "last"}, {"length": 9, "keep": "random"})
    random = True
    record = np.dtype([("start", "i8"), ("length", "i8")])
    kernels = {kind: Kernel(_run, _plain) for kind in ("array", "bytes")}
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states that are at most as long as the bucket.

        Raises:
            StateError: other sides differ from row to row too, besides `Op.declare`'s reasons.
        """
        self.require_kinds(states)
        for state in states:
            if not state.shape or None in state.shape[1:]:
                expected = "a sequence: an array whose first side alone may differ from row to row"
                raise refuse(self.name, expected, state, "Leave it out of this call")
        return tuple(self._after(state) for state in states), 0

    def __call__(self, *values: Value, stream: str | None = None, relative: bool = False) -> Any:
        """Apply the op to values of a pipeline; see `Op.__call__`."""
        op = self
        if self.length is None and values and isinstance(values[0], Value):
            read: Any = values[0].tracer.input(LENGTH)
            op = dataclasses.replace(self, length=read)
        return super(FitLength, op).__call__(*values, stream=stream, relative=relative)

    def _after(self, state: State) -> State:
        most = min(known_length(self.name, self.length), state.bound[0])
        first = None if state.shape[0] is None else most
        return dataclasses.replace(
            state, shape=(first, *state.shape[1:]), bound=(most, *state.bound[1:])
        )


fit_length = function(FitLength)
