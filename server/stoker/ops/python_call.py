"""A Python function of the user's as a step of a pipeline: slower than a compiled op, and allowed.

The pipeline stays one compiled call for each row: where the function stands, the machine code
calls back into Python with the addresses of source and destination. So branches, memory and every
other op are as they always are. What the function may draw from, and how it is tried when the
pipeline is built, is in `stoker.ops.foreign`; its identity (name, source, distributions) stands in
the graph, and a process whose code is another one refuses to build.

The function runs in whatever process computes rows: in workers, one thread each.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.ops import checks
from stoker.ops.contract import Kernel, Op, State, StateError, Value
from stoker.ops.foreign import RANDOMNESS, call_into, try_function
from stoker.ops.named import reference, resolve
from stoker.ops.provenance import provenance
from stoker.ops.registry import register_unlisted
from stoker.protocol.errors import BuildError
from stoker.rng.jit import kernel
from stoker.rng.streams import Key

KINDS: Final = ("image", "mask", "array")
ELEMENTS: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "float32",
    "float64",
)  # fmt: skip
KEY_FIELDS: Final = ("seed", "stream", "id", "epoch", "lane")
MAX_RANK: Final = 4
VALUE_WORDS: Final = 3 + MAX_RANK
HEADER_BYTES: Final = 8 * (2 * VALUE_WORDS + len(KEY_FIELDS))
CALLBACK: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64)

_failures = threading.local()


@kernel(twin="stoker.ops.python_call_compiled:call_address")
def call_address(address: Any, argument: Any) -> None:
    """Call a C function `void f(int64_t)` at an address."""
    CALLBACK(int(address))(int(argument))


@kernel(twin="stoker.ops.python_call_compiled:element")
def element(array: Any) -> int:
    """Return the place of an array's dtype in `ELEMENTS`."""
    return ELEMENTS.index(array.dtype.name)


@kernel
def _describe(array: Any, words: Any, at: Any) -> None:
    """Write (address, element, rank, sides) of an array."""
    words[at] = array.ctypes.data
    words[at + 1] = element(array)
    words[at + 2] = array.ndim
    for axis in range(array.ndim):
        words[at + 3 + axis] = array.shape[axis]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    words = scratch[:HEADER_BYTES].view(np.int64)
    _describe(src, words, 0)
    _describe(dst, words, VALUE_WORDS)
    keys = words.view(np.uint64)
    keys[2 * VALUE_WORDS] = record["seed"]
    keys[2 * VALUE_WORDS + 1] = record["stream"]
    keys[2 * VALUE_WORDS + 2] = record["id"]
    keys[2 * VALUE_WORDS + 3] = record["epoch"]
    keys[2 * VALUE_WORDS + 4] = record["lane"]
    call_address(params["callback"], words.ctypes.data)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    key = Key(*(int(record[name]) for name in KEY_FIELDS))
    _CALLS[int(params["callback"])](src, dst, key)


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
    """Call a function on images, masks or arrays; written as `ops.python`.

    Attributes:
        function: `module:attr` of the function.
        source: digest of its source, see `stoker.ops.provenance`.
        distributions: `name version` of what it uses.
        randomness: what it draws from: generator, global or none.
        size: (height, width) that comes out; None: that of what goes in.
        channels: of the image that comes out; None: as many as go in.
        dtype: that comes out; None: that of what goes in.
    """

    function: str
    source: str
    distributions: tuple[str, ...] = ()
    randomness: str = "generator"
    size: tuple[int, int] | None = None
    channels: int | None = None
    dtype: str | None = None

    name: ClassVar[str] = "python"
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("callback", "u8"), ("height", "i8"), ("width", "i8")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([(name, "u8") for name in KEY_FIELDS])
    kernels: ClassVar[dict[str, Kernel]] = {kind: Kernel(_run, _plain) for kind in KINDS}
    draw: ClassVar[Any] = staticmethod(_draw)
    out_size: ClassVar[Any] = staticmethod(_out_size)

    def check(self) -> None:
        """Check the parameters, and that the code is what the pipeline was written with.

        Raises:
            BuildError: the function may not be imported here, cannot be, or is other code.
        """
        if self.randomness not in RANDOMNESS:
            raise checks.refuse(
                "python", "randomness", f"one of {', '.join(RANDOMNESS)}", self.randomness
            )
        if self.dtype is not None and self.dtype not in ELEMENTS:
            raise checks.refuse("python", "dtype", f"one of {', '.join(ELEMENTS)}", self.dtype)
        if self.channels is not None:
            self.settle(channels=checks.integer("python", "channels", self.channels, 1, 4))
        if self.size is not None:
            self.settle(size=checks.pair("python", "size", self.size, 1))
        self.settle(distributions=tuple(self.distributions))
        found = provenance(self.function.partition(":")[0], self._function())
        if found != (self.source, self.distributions):
            raise BuildError(
                f"{self.function} here is not the code that the pipeline was written with: source "
                f"{found.source} of {_listed(found.distributions)}, expected {self.source} of "
                f"{_listed(self.distributions)}: install the same versions on both sides"
            )
        # An op's name is its default stream name; `python` alone would be everybody's.
        self.settle(name=self.function.rpartition(":")[2], random=self.randomness != "none")

    def _function(self) -> Any:
        function = resolve(self.function)
        if not callable(function):
            raise BuildError(f"{self.function} is no function: expected something to call")
        return function

    def params(self) -> np.ndarray:
        """Return the run-time parameters; the callback's address is this process's."""
        address = _callback(self.function, self.randomness)
        return np.array((address, *(self.size or (0, 0))), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return what is declared to come out; the function is tried on noise.

        Raises:
            StateError: a kind or dtype cannot be handed over, or the function cannot keep the law.
        """
        self.require_kinds(states)
        results = tuple(self._after(state) for state in states)
        for state, result in zip(states, results, strict=True):
            _tried(self, state, result)
        return results, HEADER_BYTES

    def _after(self, state: State) -> State:
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


def python(
    function: Callable[..., Any] | str,
    *values: Value,
    randomness: str = "generator",
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    dtype: str | None = None,
    stream: str | None = None,
) -> Any:
    """Call a Python function on values of a pipeline, one sample at a time; see `PythonCall`.

    Args:
        function: a function at the top level of a module, or `"module:attr"` of any object that
            can be called: `function(array, rng)`, or `function(array)` unless randomness is
            "generator". Images are (H, W, C), masks (H, W). A `torch.nn.Module` gets (C, H, W).
        values: images, masks or arrays; each call begins with the same generator state.
        randomness: "generator", "global" or "none".
        size: height and width that come out, where it is not that of what goes in.
        channels: of images that come out, where it is not that of what goes in.
        dtype: that comes out, where it is not that of what goes in.
        stream: stream name; by default the function's name.

    Raises:
        BuildError: no worker could import the function by name, or it cannot keep the law.
    """
    name = function if isinstance(function, str) else reference(function, f"function {function!r}")
    code = provenance(name.partition(":")[0], resolve(name, trusted=True))
    frame = (size, size) if isinstance(size, int) else size
    op = PythonCall(name, *code, randomness, frame, channels, dtype)
    return op(*values, stream=stream)


def failure() -> BaseException | None:
    """Return, once, the first failure of a function on this thread since the last call."""
    found: list[BaseException] = getattr(_failures, "list", [])
    _failures.list = []
    return found[0] if found else None


def _listed(distributions: tuple[str, ...]) -> str:
    return ", ".join(distributions) or "no distribution"


@functools.lru_cache(maxsize=256)
def _tried(op: PythonCall, before: State, after: State) -> None:
    try_function(op.function, resolve(op.function), op.randomness, before, after)


_CALLS: dict[int, Callable[[np.ndarray, np.ndarray, Key], None]] = {}
_callbacks: dict[tuple[str, str, int], Any] = {}


def _callback(name: str, randomness: str) -> int:
    """Return the address of the C function that calls a function; it lives as long as we do."""
    function = resolve(name)
    place = (name, randomness, id(function))
    if place not in _callbacks:
        call = functools.partial(call_into, name, function, randomness)
        made = CALLBACK(functools.partial(_entered, call))
        address = ctypes.cast(made, ctypes.c_void_p).value or 0
        _CALLS[address] = call
        _callbacks[place] = (made, address)
    return int(_callbacks[place][1])


def _entered(call: Callable[[np.ndarray, np.ndarray, Key], None], header: int) -> None:
    """What machine code calls: nothing may escape, so a failure is kept for the engine."""
    try:
        if getattr(_failures, "list", None):
            return
        words = (ctypes.c_int64 * (HEADER_BYTES // 8)).from_address(header)
        key = Key(*(word % 2**64 for word in words[2 * VALUE_WORDS :]))
        call(_array(words[:VALUE_WORDS]), _array(words[VALUE_WORDS : 2 * VALUE_WORDS]), key)
    except BaseException as error:
        _failures.list = [error]


def _array(words: list[int]) -> np.ndarray:
    address, number, rank, *sides = words
    dtype = np.dtype(ELEMENTS[number])
    shape = tuple(sides[:rank])
    size = int(np.prod(shape)) * dtype.itemsize
    memory = (ctypes.c_uint8 * size).from_address(address)
    return np.ndarray(shape, dtype, buffer=memoryview(memory))
