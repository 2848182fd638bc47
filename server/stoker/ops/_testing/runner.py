"""Runs one op, plain or compiled, and checks the contract on every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, Arithmetic
from stoker.ops._testing.check_items import looked_at_by
from stoker.ops._testing.memory import PAINT, structured
from stoker.ops._testing.painted import PaintedMemory
from stoker.ops.contract.kernel_forms import no_draw
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import IMAGE_KINDS, State, storage
from stoker.rng.streams import Key, machine_key, make_key, stream_key

Values = Sequence[tuple[str, np.ndarray]]


class ContractError(AssertionError):
    """An op breaks the contract; the message names the part, and how it was observed."""


@dataclass
class Applied:
    """The result of one application of an op.

    Attributes:
        outputs: one array for each value, in the declared dtype.
        record: the drawn record.
        states: the declared states.
    """

    outputs: list[np.ndarray]
    record: Any
    states: tuple[State, ...]


class OpRunner:
    """Runs ops, plain or compiled, and checks on every run what the op contract promises."""

    def __call__(
        self,
        op: Op,
        values: Values,
        key: Key | int = 0,
        arithmetic: Arithmetic = COMPILED,
        bound: tuple[int, int] | None = None,
        record: Any = None,
    ) -> Applied:
        """Apply an op to (kind, array) pairs.

        Args:
            op: the op.
            values: the op's arguments, which share one decision.
            key: the key to draw with; a number makes its own key.
            arithmetic: run the compiled form or the plain one.
            bound: (height, width): declare sizes that differ from row to row up to this.
            record: a record to use instead of drawing one.

        Raises:
            ContractError: the op breaks the contract.
        """
        states = tuple(state_of(kind, array, bound) for kind, array in values)
        declared, scratch_bytes = op.declare(states)
        params = structured(op.parameters, op.params())
        height, width = sides_of(values[0][1].shape)
        drawn = record if record is not None else self.draw(op, key, height, width, arithmetic)
        size = op.out_size(params, drawn, height, width)
        outputs = [
            self.kernel(op, kind, array, after, (params, drawn, size, scratch_bytes), arithmetic)
            for (kind, array), after in zip(values, declared, strict=True)
        ]
        return Applied(outputs, drawn, declared)

    def draw(
        self,
        op: Op,
        key: Key | int,
        height: int,
        width: int,
        arithmetic: Arithmetic = COMPILED,
        paint: int = 0,
        items: int = 0,
    ) -> Any:
        """Draw a record, over memory of that paint; `items` selects the items for `draws_from`.

        Raises:
            ContractError: the draw changed the items that it reads.
        """
        if isinstance(key, int):
            key = make_key(3, stream_key(op.name), key, 1)
        params = structured(op.parameters, op.params())
        record = structured(op.record, paint=paint)
        looked_at = looked_at_by(op, (height, width), items)
        before = [value.tobytes() for value in looked_at]
        if arithmetic.is_compiled and op.draw is not no_draw:  # which no program calls
            compiled(op.draw)(machine_key(key), params, height, width, record, *looked_at)
        else:
            op.draw(key, params, height, width, record, *looked_at)
        same = before == [value.tobytes() for value in looked_at]
        hold(same, op, f"draw changed the {op.draws_from} that it reads")
        return record

    def kernel(
        self,
        op: Op,
        kind: str,
        src: np.ndarray,
        after: State,
        rest: Any,
        arithmetic: Arithmetic,
        paint: int = PAINT,
    ) -> np.ndarray:
        """Run one kernel between guards; return its output in the declared dtype.

        Args:
            op: the op.
            kind: kind of the value.
            src: the value.
            after: the declared state.
            rest: parameters, record, the size of the result, bytes of scratch.
            arithmetic: run the compiled form or the plain one.
            paint: initial content of `dst` and the guards.

        Raises:
            ContractError: the op breaks the contract.
        """
        params, record, size, scratch_bytes = rest
        rule = op.kernel_of(kind, str(src.dtype))
        src = np.require(src, requirements="W")  # read-only, it would have machine code of its own
        shape = shape_of(op, after, size)
        dtype = np.dtype(after.dtype)
        memory = PaintedMemory.painted("dst", int(np.prod(shape)) * dtype.itemsize, paint)
        dst = memory.inner.view(storage(after.dtype)).reshape(shape)
        scratch = PaintedMemory.painted("scratch", scratch_bytes, paint)
        before, params_before, record_before = src.copy(), params.copy(), record.copy()
        if arithmetic.is_compiled:
            compiled(rule.run)(src, dst, params, record, scratch.inner)
        else:
            rule.plain(src, dst, params, record, None)
        hold(not memory.fault(), op, f"the {kind} kernel wrote outside of dst")
        hold(
            not scratch.fault(),
            op,
            f"the {kind} kernel wrote outside of scratch: declare more bytes",
        )
        hold(src.tobytes() == before.tobytes(), op, f"the {kind} kernel changed its source")
        hold(params == params_before, op, f"the {kind} kernel changed its parameters")
        hold(record == record_before, op, f"the {kind} kernel changed its record")
        return memory.inner.view(dtype).reshape(shape)


def state_of(kind: str, array: np.ndarray, bound: tuple[int, int] | None = None) -> State:
    """Return the state of an array; with `bound`, a state whose height and width differ by row.

    For values that are neither image nor mask, only the first side differs.
    """
    if bound is None:
        return State.fixed(kind, str(array.dtype), array.shape)
    free = 2 if kind in IMAGE_KINDS else 1
    rest = array.shape[free:]
    return State(kind, str(array.dtype), (*[None] * free, *rest), (*bound[:free], *rest))


def sides_of(shape: Sequence[Any]) -> tuple[Any, Any]:
    """Return height and width as ops see them; a sequence is (n, 1), a number (1, 1)."""
    height, width = (*shape, 1, 1)[:2]
    return height, width


def record_values(op: Op, data: bytes) -> list[Any]:
    """Return a record's fields; padding between them is ignored."""
    record = np.frombuffer(data, op.record)[0]
    return [record[name].tobytes() for name in op.record.names or () if name != "none"]


def first_difference(left: np.ndarray, right: np.ndarray) -> str:
    """Return where two arrays differ first, in words."""
    if left.shape != right.shape:
        return f": {left.shape} and {right.shape}"
    places = np.argwhere(
        left.view(storage(left.dtype.name)) != right.view(storage(right.dtype.name))
    )
    if not len(places):
        return ""
    place = tuple(int(axis) for axis in places[0])
    return f": at {place} {left[place]} and {right[place]}, and {len(places) - 1} places more"


def hold(good: bool, op: Op, what: str) -> None:
    """Raise ContractError with the op and a sentence, unless it is true."""
    if not good:
        raise ContractError(f"{op.name}: {what}")


def shape_of(op: Op, after: State, size: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of the result; it must agree with the declared state."""
    if len(after.shape) == 2:
        shape: tuple[int, ...] = size
    else:
        open_sides = iter(size)
        shape = tuple(next(open_sides) if side is None else side for side in after.shape)
    for side, declared, most in zip(shape, after.shape, after.bound, strict=True):
        fits = declared in (None, side) and side <= most
        hold(fits, op, f"it declared {after}, but out_size gives {shape}")
    return shape
