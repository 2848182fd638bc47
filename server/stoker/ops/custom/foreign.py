"""User Python functions in a pipeline: how they are called, so that every row stays reproducible.

A function receives an array of one sample and returns an array; or it receives several arrays, and
returns as many, as a tuple or list. Its source of randomness is one of:

- `generator`: it is called as `function(array, rng)`, or `function(one, two, rng)`. `rng` is a
  NumPy Generator over the Philox blocks of this row's key, so its numbers belong to (stream, seed,
  epoch, id, visit, view).
- `global`: it is called as `function(array)`. Before each call Python's `random`, `numpy.random`
  and, if it is loaded, torch's CPU generator are seeded from the row's key; after the call their
  old states are restored.
- `none`: it is called as `function(array)` and draws nothing.

A trial when a pipeline is built checks that the function complies (`try_function`): same row, same
bytes, independent of earlier calls and of the states of the global generators. A `torch.nn.Module`
receives an image as a (C, H, W) tensor, without gradients, and its result is converted back.

A call runs on one thread under the interpreter lock; any thread may call.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from stoker.ops.contract.states import State, StateError
from stoker.rng.philox import Words, key_block
from stoker.rng.streams import Key, make_key

RANDOMNESS: Final = ("generator", "global", "none")
VARIED_SIDE: Final = 256
"""Side of the trial noise if sizes differ from sample to sample."""

_globals = threading.RLock()


class CallError(Exception):
    """A function failed on one sample, or its result differs from the declaration."""


def call_function(function: Any, randomness: str, arrays: Sequence[np.ndarray], key: Key) -> Any:
    """Call a function on one sample and return its result.

    Args:
        function: the function, or a `torch.nn.Module`.
        randomness: one of `RANDOMNESS`.
        arrays: the sample's values; the function gets copies, which it may change.
        key: the row's key.
    """
    given: list[Any] = [array.copy() for array in arrays]
    if _is_torch_module(function):
        with seeded(key) if randomness == "global" else contextlib.nullcontext():
            return _call_module(function, given)
    if randomness == "generator":
        return function(*given, generator(key))
    if randomness == "none":
        return function(*given)
    with seeded(key):
        return function(*given)


def generator(key: Key) -> np.random.Generator:
    """Return a NumPy Generator whose first block is block 0 of the key, then block 1, and so on."""
    # NumPy's Philox increments its counter before it makes a block.
    counter = key.id << 64 | key.epoch << 128 | key.lane << 192
    bits = np.random.Philox(counter=(counter - 1) % 2**256, key=key.seed | key.stream << 64)
    return np.random.Generator(bits)


def call_into(
    what: str,
    function: Any,
    randomness: str,
    srcs: Sequence[np.ndarray],
    dsts: Sequence[np.ndarray],
    key: Key,
) -> None:
    """Call a function on `srcs` and copy its results to `dsts`, as many.

    Raises:
        CallError: it raised, or a result differs from its `dst` in dtype or shape.
    """
    for result, dst in zip(call(what, function, randomness, srcs, key), dsts, strict=True):
        put(what, result, dst)


def call(
    what: str, function: Any, randomness: str, srcs: Sequence[np.ndarray], key: Key
) -> list[np.ndarray]:
    """Call a function on `srcs` and return its results, as many.

    Raises:
        CallError: it raised, or returned another number of results.
    """
    try:
        given = call_function(function, randomness, srcs, key)
        if len(srcs) == 1:
            return [np.asarray(given)]
        results = [np.asarray(one) for one in given] if isinstance(given, tuple | list) else []
    except BaseException as error:  # any exception of the user's function, SystemExit as well
        if _from_the_keyboard(error):
            raise
        raise CallError(f"{what} raised {type(error).__name__}: {error}{line_of(error)}") from error
    if len(results) != len(srcs):
        got = f"{len(results)} of them" if results else type(given).__name__
        raise CallError(
            f"{what} gave {got}, expected a tuple of {len(srcs)} arrays, one per argument"
        )
    return results


def _from_the_keyboard(error: BaseException) -> bool:
    """Return whether an exception may come from Ctrl-C; workers ignore that signal."""
    listens = signal.getsignal(signal.SIGINT) not in {signal.SIG_IGN, signal.SIG_DFL}
    return isinstance(error, KeyboardInterrupt) and listens


def put(what: str, result: np.ndarray, dst: np.ndarray) -> None:
    """Copy a result to `dst`.

    Raises:
        CallError: it has another dtype or shape.
    """
    if result.dtype != dst.dtype or result.shape != dst.shape:
        raise CallError(
            f"{what} gave {result.dtype} of shape {result.shape}, expected {dst.dtype} of shape "
            f"{dst.shape}: declare the result with size=, channels= and dtype="
        )
    dst[...] = result


def try_function(
    what: str, function: Any, randomness: str, srcs: Sequence[State], dsts: Sequence[State]
) -> None:
    """Refuse a function that is not reproducible, or whose result differs from the declaration.

    It is called on noise: four times for the same row, with another row and other states of the
    global generators in between.

    Raises:
        StateError: names the function, what was observed and the remedy.
    """
    rng = generator(make_key(1, 2, 3, 4))
    values, others = ([noise(_sides(src), src.dtype, rng) for src in srcs] for _ in range(2))
    outputs = [
        [_output(dst, value) for dst, value in zip(dsts, values, strict=True)] for _ in range(5)
    ]
    keys = [make_key(5, 6, 7, 8)] * 5
    keys[2] = make_key(9, 10, 11, 12)
    for turn, (out, key) in enumerate(zip(outputs, keys, strict=True)):
        try:
            with kept(turn) as left_alone:
                call_into(what, function, randomness, others if turn == 2 else values, out, key)
                if randomness != "global" and not left_alone():
                    raise StateError(
                        f"{what} draws from a global generator (random, numpy.random or torch), "
                        "which all rows share: draw from the generator that it receives, or call it"
                        " with randomness='global', so that they are seeded for each row"
                    )
        except CallError as error:
            tried = " and ".join(str(src) for src in srcs)
            raise StateError(f"{error}. It was tried on noise, {tried}") from error
    results = [[array.tobytes() for array in out] for out in outputs]
    for turn, result in enumerate(results):
        if turn != 2 and result != results[0]:
            raise StateError(
                f"{what} cannot be used: it gave two results for one row, so the stream would "
                "depend on workers and timing. It draws from its own generator, or keeps state "
                "from call to call: draw from the generator that it receives "
                "(randomness='generator'), or from the global ones (randomness='global')"
            )


def _sides(state: State) -> list[int]:
    """Return the sides of a trial value for a function; a number is an array of one."""
    sides = zip(state.shape, state.bound, strict=True)
    return [side if side is not None else min(bound, VARIED_SIDE) for side, bound in sides] or [1]


def _output(state: State, value: np.ndarray) -> np.ndarray:
    """Return memory for the result of a value."""
    shape = state.shape if state.is_fixed else (*value.shape[:2], *state.shape[2:])
    return np.empty(tuple(side or 0 for side in shape) or (1,), state.dtype)


def noise(shape: Sequence[int], dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """Return trial values for foreign code: floats in [0, 1), else integers below 256."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.random(tuple(shape)).astype(kind)
    most = 2 if kind.kind == "b" else min(256, int(np.iinfo(kind).max) + 1)
    return rng.integers(0, most, tuple(shape)).astype(kind)


def _is_torch_module(function: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _call_module(module: Any, arrays: Sequence[np.ndarray]) -> Any:
    torch = sys.modules["torch"]
    with torch.no_grad():
        tensors = [torch.from_numpy(array) for array in arrays]
        given = [t.permute(2, 0, 1).contiguous() if t.ndim == 3 else t for t in tensors]
        results = module(*given)
        several = isinstance(results, tuple | list)
        back = [
            np.ascontiguousarray(
                (r.permute(1, 2, 0) if t.ndim == r.ndim == 3 else r).detach().cpu().numpy()
            )
            for r, t in zip(results if several else [results], tensors, strict=False)
        ]
        return back if several else back[0]


@contextlib.contextmanager
def seeded(key: Key) -> Iterator[None]:
    """Seed the global generators from a row's key, and restore them at the end."""
    with _globals:
        before = _states()
        try:
            _seed(key_block(key, 0))
            yield
        finally:
            _put_back(before)


@contextlib.contextmanager
def kept(turn: int) -> Iterator[Any]:
    """Set the global generators to the state of this turn; yield a check that nothing was drawn."""
    with _globals:
        before = _states()
        try:
            _seed((turn, 1, 2, 3))
            seeded = generator_states()
            yield lambda: generator_states() == seeded
        finally:
            _put_back(before)


def _seed(words: Words) -> None:
    random.seed(words[0])
    np.random.seed([half for w in words for half in (w & 0xFFFFFFFF, w >> 32)])
    torch = _torch_generator()
    if torch is not None:
        torch.manual_seed(words[1])


def _states() -> tuple[Any, Any, Any]:
    torch = _torch_generator()
    return random.getstate(), np.random.get_state(), None if torch is None else torch.get_state()


def _torch_generator() -> Any:
    """Return PyTorch's global generator, if PyTorch is imported, wholly."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def _put_back(states: tuple[Any, Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch = _torch_generator()
    if torch is not None and states[2] is not None:
        torch.set_state(states[2])


def generator_states() -> dict[str, Any]:
    """Return the states of the global generators by name; they can be compared."""
    found = {"random": random.getstate(), "numpy.random": _comparable(np.random.get_state())}
    torch = _torch_generator()
    return found if torch is None else {**found, "torch": state_of(torch)}


def state_of(value: Any) -> Any:
    """Return the state of a generator of `random`, NumPy or PyTorch; None for everything else."""
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return value.getstate()
    if isinstance(value, np.random.Generator):
        value = value.bit_generator
    if isinstance(value, np.random.BitGenerator):
        return _comparable(value.state)
    if isinstance(value, np.random.RandomState):
        return _comparable(value.get_state())
    torch = getattr(sys.modules.get("torch"), "Generator", None)
    if torch is not None and isinstance(value, torch):
        return value.get_state().cpu().numpy().tobytes()
    return None


def _comparable(state: Any) -> Any:
    """Return a state of NumPy's whose arrays are bytes."""
    if isinstance(state, dict):
        return {name: _comparable(part) for name, part in state.items()}
    if isinstance(state, tuple):
        return tuple(_comparable(part) for part in state)
    return state.tobytes() if isinstance(state, np.ndarray) else state


def line_of(error: BaseException) -> str:
    """Return " (file:line)" of the last frame outside of this module; "" without one."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            last = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return last
