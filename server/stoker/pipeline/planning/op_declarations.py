"""Checks of an op's declarations, before memory is laid out by them.

Compiled code calls kernels by address, with views whose sides come from states. So a state that
contradicts itself, or a parameter record of another layout, would read or write foreign memory.
All declarations of a user class are therefore checked once, when a pipeline is bound. How a
kernel uses its views is not checked here; the guarded engine does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from stoker.ops.contract.kernel_forms import FoldKernel, ItemsKernel, Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import VECTORS, State
from stoker.ops.contract.vector_fields import as_given, as_image, require_vectors
from stoker.protocol.errors import BuildError, StokerError
from stoker.protocol.item_fields import DTYPES

MAX_RANK: Final = 5

MOST_BYTES: Final = 2**40
"""Limit for one value, or the scratch of one call; more is surely a mistake."""
RANKS: Final = {
    "image": (3,), "mask": (2,), "label": None, "scalar": None, "array": None, "bytes": (1,)
}  # fmt: skip
"""Kinds that a kernel can make -> their number of sides; None: any number."""


def check_class(op: type[Op]) -> None:
    """Refuse an op whose class attributes break the contract.

    Raises:
        BuildError: names the attribute, what was expected and what came.
    """
    for name in ("parameters", "record"):
        dtype = getattr(op, name)
        fields = dtype.names if isinstance(dtype, np.dtype) else None
        _expect(op, bool(fields), name, "a structured dtype", dtype)
        _expect(op, not dtype.hasobject, name, "numbers alone", dtype)
    rules_of = {
        "kernels": Kernel,
        "floats": Kernel,
        "items": ItemsKernel,
        "folds": FoldKernel,
        "float_folds": FoldKernel,
    }
    for name, kind in rules_of.items():
        rules = getattr(op, name)
        good = isinstance(rules, Mapping) and all(isinstance(r, kind) for r in rules.values())
        _expect(op, good, name, f"a dict of kinds to {kind.__name__}", rules)


def params_of(op: Op) -> np.ndarray:
    """Return the run-time parameters of an op.

    Raises:
        BuildError: `params` does not return one record of the dtype `parameters`.
    """
    made: Any = op.params()
    if not (
        isinstance(made, np.ndarray | np.void) and made.shape == () and made.dtype == op.parameters
    ):
        got = f"{made.dtype} of shape {made.shape}" if hasattr(made, "dtype") else repr(made)
        raise BuildError(
            f"{op.name}.params: expected one record, np.array((...), {op.parameters}), got {got}",
            op=op.name,
        )
    return np.asarray(made)


def declared(op: Op, given: tuple[State, ...]) -> tuple[State, int]:
    """Return the state that an op declares for one kernel's result, and its scratch bytes.

    To the op, a vector field is an image; the result is a field again.

    Raises:
        BuildError: the declaration has another form, or its state contradicts itself.
        StokerError: raised by `declare` itself for states that it has no rule for.
    """
    for one in given:
        require_vectors(op, one)
    answer = _asked(op, "declare", lambda: op.declare(tuple(map(as_image, given))))
    pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], tuple)
    if not pair or len(answer[0]) != 1 or not isinstance(answer[0][0], State):
        raise BuildError(
            f"{op.name}.declare: expected (states, scratch bytes) with a tuple of one state, got "
            f"{answer!r}",
            op=op.name,
        )
    (state,), scratch = answer
    if state.kind not in RANKS or state.items:
        raise _fault(op, state, f"a kernel makes {', '.join(RANKS)}, but not items")
    ranks = RANKS[state.kind]
    if ranks is not None and len(state.shape) not in ranks:
        raise _fault(op, state, f"{state.kind} has {ranks[0]} sides")
    _check_state(op, state)
    if not (_is_whole(scratch) and 0 <= scratch <= MOST_BYTES):
        raise BuildError(
            f"{op.name}.declare: scratch bytes: expected 0 to {MOST_BYTES}, got {scratch!r}",
            op=op.name,
        )
    made = as_given(given[0], state)
    if made.kind in VECTORS and (made.dtype, made.shape[2:]) != ("float32", (VECTORS[made.kind],)):
        raise _fault(op, made, f"{made.kind} stays float32 with {VECTORS[made.kind]} components")
    return made, int(scratch)


def declared_items(op: Op, given: State) -> State:
    """Return the state that an op declares for the boxes or keypoints it returns.

    Raises:
        BuildError: fewer items than in the input, or items of other words that are never written.
        StokerError: raised by `declare_items` itself.
    """
    state = _asked(op, "declare_items", lambda: op.declare_items(given))
    if not isinstance(state, State) or state.kind != given.kind or not state.items:
        raise BuildError(
            f"{op.name}.declare_items: expected a state of {given.kind}, got {state!r}", op=op.name
        )
    moved = given.kind not in op.items
    if state.bound[0] < given.bound[0] or (moved and state.bound[1:] != given.bound[1:]):
        raise _fault(op, state, f"{given} goes in, and all of it may remain")
    _check_state(op, state)
    return state


def fault_of(state: State) -> str | None:
    """Return how a state contradicts itself, if it does."""
    return next((why for holds, why in _rules(state) if not holds), None)


def _rules(state: State) -> Iterator[tuple[bool, str]]:
    """Yield whether a state keeps each rule, and the rule in words; rules rely on earlier ones."""
    yield len(state.shape) == len(state.bound), "it has a bound for each side"
    sides = zip(state.shape, state.bound, strict=True)
    yield all(_is_whole(bound) and bound >= 0 for bound in state.bound), "bounds are counts"
    yield all(s is None or s == b for s, b in sides), "the bound of a fixed side is that side"
    yield state.dtype in DTYPES, f"its dtype is one of {', '.join(DTYPES)}"
    yield state.bound_bytes <= MOST_BYTES, f"it has at most {MOST_BYTES} bytes"


def _check_state(op: Op, state: State) -> None:
    fault = fault_of(state)
    if fault is None and 0 in state.bound:
        fault = "every bound is at least 1"
    if fault is None and len(state.shape) > MAX_RANK:
        fault = f"it has at most {MAX_RANK} sides"
    if fault is not None:
        raise _fault(op, state, fault)


def _asked(op: Op, name: str, body: Callable[[], Any]) -> Any:
    """Call a method of an op; an exception of user code becomes an error with the op's name."""
    try:
        return body()
    except StokerError:
        raise
    except Exception as error:
        raise BuildError(
            f"{op.name}.{name} raised {type(error).__name__}: {error}", op=op.name
        ) from error


def _fault(op: Op, state: State, why: str) -> BuildError:
    return BuildError(
        f"{op.name} declares {state.kind} {state.dtype} of shape {state.shape} with bound "
        f"{state.bound}: {why}. Correct its declare: State.fixed and resized() make good states",
        op=op.name,
    )


def _expect(op: type[Op], holds: bool, name: str, expected: str, got: object) -> None:
    if not holds:
        raise BuildError(f"op {op.name!r}: {name}: expected {expected}, got {got!r}", op=op.name)


def _is_whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)
