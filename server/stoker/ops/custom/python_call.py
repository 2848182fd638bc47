"""A user's Python function as a step of a pipeline: slower than a compiled op, but supported.

The pipeline remains one compiled call for each row: at the function's place the machine code
calls back into Python with the addresses of source and destination. So branches, memory and every
other op work as usual. `custom.foreign` describes the sources of randomness, and the trial when the
pipeline is built. The function's identity (name, source, distributions) is part of the graph, and a
process whose code differs refuses to build.

The function runs in the process that computes rows: in workers, one thread each.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.jit.named import resolve
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameter_limits import MOST_CHANNELS, refuse
from stoker.ops.contract.parameters import SidePair, Whole
from stoker.ops.contract.registry import register_unlisted
from stoker.ops.contract.states import State, StateError
from stoker.ops.custom.foreign import RANDOMNESS, call_into, try_function
from stoker.ops.custom.provenance import provenance, values_of
from stoker.protocol.errors import BuildError
from stoker.rng.streams import Key

KINDS: Final = ("image", "mask", "array", "label", "scalar")
ELEMENTS: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "float32",
    "float64",
)  # fmt: skip
KEY_FIELDS: Final = ("seed", "stream", "id", "epoch", "lane")
MAX_RANK: Final = 4
MOST_CHECKED: Final = 256
MOST_NAMED: Final = 8
"""Values that an error names."""
VALUE_WORDS: Final = 3 + MAX_RANK
HEADER_BYTES: Final = 8 * (2 * VALUE_WORDS + len(KEY_FIELDS))
CALLBACK: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64)

_failures = threading.local()
_checked: dict[tuple[str, str, tuple[str, ...]], Any] = {}
"""Name, source and distributions of a function -> the function that was found to be that."""


@kernel(twin="stoker.ops.custom.python_call_compiled:call_address")
def call_address(address: Any, argument: Any) -> None:
    """Call a C function `void f(int64_t)` at an address."""
    CALLBACK(int(address))(int(argument))


@kernel(twin="stoker.ops.custom.python_call_compiled:element")
def element(array: Any) -> int:
    """Return the index of an array's dtype in `ELEMENTS`."""
    return ELEMENTS.index(array.dtype.name)


@kernel
def describe(array: Any, words: Any, at: Any) -> None:
    """Write (address, element, rank, sides) of an array."""
    words[at] = array.ctypes.data
    words[at + 1] = element(array)
    words[at + 2] = array.ndim
    for axis in range(array.ndim):
        words[at + 3 + axis] = array.shape[axis]


@kernel
def write_key(record: Any, words: Any, at: Any) -> None:
    """Write the five words of the row's key."""
    words[at] = record["seed"]
    words[at + 1] = record["stream"]
    words[at + 2] = record["id"]
    words[at + 3] = record["epoch"]
    words[at + 4] = record["lane"]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    words = scratch[:HEADER_BYTES].view(np.int64)
    describe(src, words, 0)
    describe(dst, words, VALUE_WORDS)
    write_key(record, words.view(np.uint64), 2 * VALUE_WORDS)
    call_address(params["callback"], words.ctypes.data)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    called(params)(src, dst, key_of(record))


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["seed"], record["stream"], record["id"] = key[0], key[1], key[2]
    record["epoch"], record["lane"] = key[3], key[4]


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    if params["height"] > 0:
        return params["height"], params["width"]
    return height, width


@register_unlisted
@dataclass(frozen=True)
class PythonCall(Op):
    """Call a function on images, masks, arrays or numbers; written as `ops.python`.

    Attributes:
        function: `module:attr` of the function.
        source: digest of its source, see `stoker.ops.custom.provenance`.
        distributions: `name version` of each distribution it uses.
        randomness: its source of randomness: generator, global or none.
        size: (height, width) of the result; None: that of the input.
        channels: channels of the resulting image; None: as many as the input's.
        dtype: dtype of the result; None: that of the input.
    """

    function: str
    source: str
    distributions: tuple[str, ...] = ()
    randomness: str = "generator"
    size: tuple[int, int] | None = None
    channels: int | None = None
    dtype: str | None = None

    name: ClassVar[str] = "python"
    code: ClassVar[Any] = None
    """The function; each op has its own."""
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("callback", "u8"), ("height", "i8"), ("width", "i8")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([(name, "u8") for name in KEY_FIELDS])
    kernels: ClassVar[dict[str, Kernel]] = {kind: Kernel(_run, _plain) for kind in KINDS}
    draw: ClassVar[Any] = staticmethod(_draw)
    out_size: ClassVar[Any] = staticmethod(_out_size)
    calls_python: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters, and that the code is the one that the pipeline was written with.

        Raises:
            BuildError: the function may not or cannot be imported here, or is other code.
        """
        if self.randomness not in RANDOMNESS:
            raise refuse("python", "randomness", f"one of {', '.join(RANDOMNESS)}", self.randomness)
        if self.dtype is not None and self.dtype not in ELEMENTS:
            raise refuse("python", "dtype", f"one of {', '.join(ELEMENTS)}", self.dtype)
        if self.channels is not None:
            self.settle(channels=Whole(1, MOST_CHANNELS).check("python", "channels", self.channels))
        if self.size is not None:
            self.settle(size=SidePair(1).check("python", "size", self.size))
        self.settle(distributions=tuple(self.distributions))
        # Kept, because a worker forgets names after an edit while streams with this op are open.
        self.settle(code=self._function())
        self._check_code()
        # An op's name is its default stream name; all functions would share `python`.
        self.settle(name=self.function.rpartition(":")[2], random=self.randomness != "none")

    def _check_code(self) -> None:
        """Check the code once for a function: what it reads may change when it is called."""
        key = (self.function, self.source, self.distributions)
        if _checked.get(key) is self.code:
            return
        found = provenance(self.function.partition(":")[0], self.code)
        if found != (self.source, self.distributions):
            raise BuildError(
                f"{self.function} here is not the code that the pipeline was written with: source "
                f"{found.source} of {_listed(found.distributions)}, expected {self.source} of "
                f"{_listed(self.distributions)}: install the same versions on both sides, and "
                "start this program again if code or data were edited since it imported them"
                f"{self._reading()}"
            )
        if len(_checked) >= MOST_CHECKED:
            _checked.clear()
        _checked[key] = self.code

    def _reading(self) -> str:
        """Return, for an error, which values the function reads; "" if it reads none."""
        places = sorted(values_of(self.function.partition(":")[0], self.code))
        if not places:
            return ""
        listed = ", ".join(places[:MOST_NAMED]) + (", ..." if places[MOST_NAMED:] else "")
        return (
            f". It reads {listed}: these must be the same in every process, so not random, not a "
            "time, and not changed after the import"
        )

    def _function(self) -> Any:
        function = resolve(self.function)
        if not callable(function):
            raise BuildError(f"{self.function}: expected a callable object")
        return function

    def params(self) -> np.ndarray:
        """Return the run-time parameters; the callback's address is this process's."""
        address = callback(self.function, self.code, self.randomness, _call, _entered)
        return np.array((address, *(self.size or (0, 0))), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the declared states of the results; the function is tried on noise.

        Raises:
            StateError: a kind or dtype is not supported, or the function is not reproducible.
        """
        self.require_kinds(states)
        results = tuple(self.after(state) for state in states)
        for state, result in zip(states, results, strict=True):
            _tried(self, state, result)
        return results, HEADER_BYTES

    def after(self, state: State) -> State:
        """Return the declared state of the result for one value.

        Raises:
            StateError: a dtype is not supported.
        """
        if state.dtype not in ELEMENTS or len(state.shape) > MAX_RANK:
            raise StateError(
                f"{self.function}: {state} cannot be handed to Python: expected a dtype of "
                f"{', '.join(ELEMENTS)} and at most {MAX_RANK} sides. Call it before the cast"
            )
        after = State(state.kind, self.dtype or state.dtype, state.shape, state.bound)
        if self.size is not None:
            after = after.resized(*self.size, self.size)
        if self.channels is not None and state.kind == "image":
            after = State(
                after.kind,
                after.dtype,
                (*after.shape[:2], self.channels),
                (*after.bound[:2], self.channels),
            )
        return after


def failure() -> BaseException | None:
    """Return, once, the first failure of a function on this thread since the last call."""
    found: list[BaseException] = getattr(_failures, "list", [])
    _failures.list = []
    return found[0] if found else None


def _listed(distributions: tuple[str, ...]) -> str:
    return ", ".join(distributions) or "no distribution"


@functools.lru_cache(maxsize=256)
def _tried(op: PythonCall, before: State, after: State) -> None:
    try_function(op.function, op.code, op.randomness, (before,), (after,))


_CALLS: dict[int, Callable[..., None]] = {}
_callbacks: dict[tuple[Any, ...], Any] = {}


def callback(
    name: str,
    function: Any,
    randomness: str,
    call: Callable[..., None],
    enter: Callable[..., None],
) -> int:
    """Return the address of a C function that calls a function; it lives as long as the process.

    Args:
        name: name of the function.
        function: the function.
        randomness: its source of randomness.
        call: `call(name, function, randomness, ...)`: the way to call it.
        enter: `enter(call, words)`: reads what machine code has written and calls.
    """
    place = (name, randomness, id(function), call)
    if place not in _callbacks:
        made_call = functools.partial(call, name, function, randomness)
        made = CALLBACK(functools.partial(_guarded, enter, made_call))
        address = ctypes.cast(made, ctypes.c_void_p).value or 0
        _CALLS[address] = made_call
        _callbacks[place] = (made, address)
    return int(_callbacks[place][1])


def called(params: Any) -> Callable[..., None]:
    """Return the function that the callback of some parameters calls."""
    return _CALLS[int(params["callback"])]


def key_of(record: Any) -> Key:
    """Return the row's key."""
    return Key(*(int(record[name]) for name in KEY_FIELDS))


def _guarded(enter: Callable[..., None], call: Callable[..., None], header: int) -> None:
    """The entry point for machine code: no exception may escape, so it is kept for the engine."""
    try:
        if not getattr(_failures, "list", None):
            enter(call, header)
    except BaseException as error:
        _failures.list = [error]


def _call(
    name: str, function: Any, randomness: str, src: np.ndarray, dst: np.ndarray, key: Key
) -> None:
    call_into(name, function, randomness, (src,), (dst,), key)


def _entered(call: Callable[..., None], header: int) -> None:
    words = (ctypes.c_int64 * (HEADER_BYTES // 8)).from_address(header)
    key = key_from(words[2 * VALUE_WORDS :])
    call(array_from(words[:VALUE_WORDS]), array_from(words[VALUE_WORDS : 2 * VALUE_WORDS]), key)


def key_from(words: Sequence[int]) -> Key:
    """Return the key that `write_key` wrote."""
    return Key(*(word % 2**64 for word in words[: len(KEY_FIELDS)]))


def array_from(words: Sequence[int]) -> np.ndarray:
    """Return the array that `describe` described."""
    address, number, rank, *sides = words
    dtype = np.dtype(ELEMENTS[number])
    shape = tuple(sides[:rank])
    size = int(np.prod(shape)) * dtype.itemsize
    memory = (ctypes.c_uint8 * size).from_address(address)
    return np.ndarray(shape, dtype, buffer=memoryview(memory))
