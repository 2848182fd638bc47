"""A user's Python function that receives several values of a sample at once, and returns as many.

Each value has its own result, so each result is a fold of all values: machine code collects the
addresses, one after the other, and calls back with the last. The ops of all results draw from one
stream name, so their keys are equal; the function is called for the first result that is needed,
and its results are kept until the row's last one was taken, or another call comes. Kept results are
used only for the same function, key and bytes of all values. Everything else is as in
`stoker.ops.custom.python_call`.

Limits: 2 to 8 images, masks, arrays and numbers. Results have the sizes of the values, or `size`;
images may get other channels and another dtype.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import FoldKernel, Kernel
from stoker.ops.contract.parameters import Whole
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.contract.states import IMAGE_KINDS, State, StateError
from stoker.ops.custom.foreign import call, put, try_function
from stoker.ops.custom.python_call import (
    KEY_FIELDS,
    KINDS,
    VALUE_WORDS,
    PythonCall,
    array_from,
    call_address,
    callback,
    called,
    describe,
    key_from,
    key_of,
    write_key,
)
from stoker.rng.streams import Key

MOST: Final = 8
KEY_AT: Final = VALUE_WORDS * (MOST + 1)
COUNT_AT: Final = KEY_AT + len(KEY_FIELDS)
WORDS: Final = COUNT_AT + 2

_kept = threading.local()


class _Kept(NamedTuple):
    """The results of a function for a row, and everything that they depend on."""

    name: str
    randomness: str
    key: Key
    values: list[np.ndarray]
    results: list[np.ndarray]


@kernel
def _run(
    src: Any, place: int, count: int, dst: Any, params: Any, record: Any, scratch: Any
) -> None:
    words = scratch[: WORDS * 8].view(np.int64)
    describe(src, words, VALUE_WORDS * (place + 1))
    if place == count - 1:
        describe(dst, words, 0)
        write_key(record, words.view(np.uint64), KEY_AT)
        words[COUNT_AT], words[COUNT_AT + 1] = count, params["result"]
        call_address(params["callback"], words.ctypes.data)


def _plain(srcs: Sequence[np.ndarray], dst: np.ndarray, params: Any, record: Any) -> None:
    called(params)(srcs, dst, int(params["result"]), key_of(record))


@register_unlisted
@dataclass(frozen=True)
class PythonTogether(PythonCall):
    """One result of a function of several values; written as `ops.python(..., together=True)`.

    Attributes:
        result: index of the result, from 0.
    """

    result: int = 0

    name: ClassVar[str] = "python_together"
    result_number: ClassVar[str] = "result"
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("callback", "u8"), ("height", "i8"), ("width", "i8"), ("result", "i8")]
    )
    kernels: ClassVar[dict[str, Kernel]] = {}
    folds: ClassVar[dict[str, FoldKernel]] = dict.fromkeys(KINDS, FoldKernel(_run, _plain))

    def check(self) -> None:
        """Check the parameters; see `PythonCall.check`."""
        super().check()
        self.settle(result=Whole(0, MOST - 1).check("python", "result", self.result))

    def params(self) -> np.ndarray:
        """Return the run-time parameters; the callback's address is this process's."""
        address = callback(self.function, self.code, self.randomness, _call, _entered)
        return np.array((address, *(self.size or (0, 0)), self.result), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the declared state of this result; the function is tried on noise.

        Raises:
            StateError: there are too many values, one is not supported, or the function is not
                reproducible.
        """
        for state in states:
            if state.kind not in self.folds:
                raise self.no_rule(state)
        if not max(2, self.result + 1) <= len(states) <= MOST:
            raise StateError(
                f"{self.function}: expected 2 to {MOST} values together, got {len(states)}"
            )
        results = tuple(self.after(state) for state in states)
        frames = [state.kind in IMAGE_KINDS for state in states]
        if not all(state.is_fixed for state in results) and not frames[0]:
            raise StateError(
                f"{self.function}: sizes differ from sample to sample, and the first value gives "
                f"the size: expected an image or mask first, got {states[0]}"
            )
        _tried(replace(self, result=0), states, results)
        return (results[self.result],), WORDS * 8

    def after(self, state: State) -> State:
        """Return the declared state of the result for one value; `dtype` is that of images."""
        result = super().after(state)
        if state.kind == "image":
            return result
        return State(state.kind, state.dtype, result.shape, result.bound)


@functools.lru_cache(maxsize=64)
def _tried(op: PythonTogether, before: tuple[State, ...], after: tuple[State, ...]) -> None:
    try_function(op.function, op.code, op.randomness, before, after)


def _call(
    name: str,
    function: Any,
    randomness: str,
    srcs: Sequence[np.ndarray],
    dst: np.ndarray,
    result: int,
    key: Key,
) -> None:
    """Write one result; the function is called unless the kept results fit row and values."""
    kept: _Kept | None = getattr(_kept, "last", None)
    _kept.last = None
    if kept is None or not _is_of(kept, name, randomness, srcs, key):
        values = [np.array(src) for src in srcs]
        results = call(name, function, randomness, srcs, key)
        kept = _Kept(name, randomness, key, values, results)
    put(name, kept.results[result], dst)
    if result < len(srcs) - 1:
        _kept.last = kept


def _is_of(kept: _Kept, name: str, randomness: str, srcs: Sequence[np.ndarray], key: Key) -> bool:
    same = (kept.name, kept.randomness, kept.key) == (name, randomness, key)
    return (
        same
        and len(srcs) == len(kept.values)
        and all(
            (src.dtype, src.shape) == (value.dtype, value.shape)
            and np.array_equal(_bytes(src), _bytes(value))
            for src, value in zip(srcs, kept.values, strict=True)
        )
    )


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _entered(call_it: Callable[..., None], header: int) -> None:
    words = (ctypes.c_int64 * WORDS).from_address(header)
    arrays = [
        array_from(words[VALUE_WORDS * place : VALUE_WORDS * (place + 1)])
        for place in range(words[COUNT_AT] + 1)
    ]
    call_it(arrays[1:], arrays[0], words[COUNT_AT + 1], key_from(words[KEY_AT:]))
