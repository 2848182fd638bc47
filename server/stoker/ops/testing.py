"""Tests of the op contract, for user ops and Stoker's own: one call proves what an op promises.

    from stoker.ops.testing import check_op

    def test_blur():
        check_op(Blur(radius=3))

`OpRunner` runs one op, plain or compiled, and checks the contract on every run: guard bytes around
`dst` and `scratch` are not changed, nor are source, parameters and record, and the result has the
declared size. `check_op` runs it over sizes, keys and engines. It compiles the op's kernels, so a
first call takes seconds; the compiled code is kept.

It cannot detect whether a kernel calls the platform's math library (use `stoker.rng.maths`),
nor whether the pixels are what you intend (compare with your own reference).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Final

import numpy as np

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN, Arithmetic
from stoker.ops._testing.folds import check_folds
from stoker.ops._testing.items import check_items, looked_at_by
from stoker.ops._testing.memory import OTHER_PAINT, PAINT, structured
from stoker.ops._testing.painted import PaintedMemory
from stoker.ops.contract.op import IMAGE_KINDS, Op, State, StateError, storage
from stoker.ops.contract.registry import make, name_of
from stoker.protocol.canonical import canonical_bytes
from stoker.rng.streams import Key, machine_key, make_key, stream_key

SIZES: Final = ((17, 13), (33, 64), (1, 9), (8, 1), (49, 97))
CHANNELS: Final = (3, 1, 4, 2)

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
        if arithmetic.is_compiled:
            compiled(op.draw)(machine_key(key), params, height, width, record, *looked_at)
        else:
            op.draw(key, params, height, width, record, *looked_at)
        same = before == [value.tobytes() for value in looked_at]
        _hold(same, op, f"draw changed the {op.draws_from} that it reads")
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
        shape = _shape(op, after, size)
        dtype = np.dtype(after.dtype)
        memory = PaintedMemory.painted("dst", int(np.prod(shape)) * dtype.itemsize, paint)
        dst = memory.inner.view(storage(after.dtype)).reshape(shape)
        scratch = PaintedMemory.painted("scratch", scratch_bytes, paint)
        before, params_before, record_before = src.copy(), params.copy(), record.copy()
        if arithmetic.is_compiled:
            compiled(rule.run)(src, dst, params, record, scratch.inner)
        else:
            rule.plain(src, dst, params, record, None)
        _hold(not memory.fault(), op, f"the {kind} kernel wrote outside of dst")
        _hold(
            not scratch.fault(),
            op,
            f"the {kind} kernel wrote outside of scratch: declare more bytes",
        )
        _hold(src.tobytes() == before.tobytes(), op, f"the {kind} kernel changed its source")
        _hold(params == params_before, op, f"the {kind} kernel changed its parameters")
        _hold(record == record_before, op, f"the {kind} kernel changed its record")
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


def check_op(op: Op, values: Sequence[Values] | None = None, *, rows: int = 12) -> None:
    """Prove that an op keeps the contract (docs/contracts/op.md).

    Args:
        op: the op, with parameters that make it do something.
        values: the trial values: each is a list of (kind, array) of one size, for one call of the
            op. By default noise of five sizes, an image and masks for the kinds that the op has a
            rule for. Boxes, keypoints and folds are always tried.
        rows: the number of rows to try on each.

    Raises:
        ContractError: it does not; the message names the part.
        BuildError: a kernel cannot be compiled, or no worker could import the op by its name.
        StateError: the op has no rule for any of the values.
    """
    run = OpRunner()
    alone = not op.kernels and bool(op.items or op.folds)
    tried = list(values) if values is not None else [] if alone else list(_examples(op))
    _check_graph_form(op)
    _check_draws(op, run, rows)
    _check_rescale(op, run, rows)
    check_items(op, _hold, rows)
    check_folds(op, _hold, rows)
    for number, given in enumerate(tried):
        _check_declaration(op, run, given)
        _check_values(op, run, given, range(number * rows, (number + 1) * rows))
        for kind, array in given:
            _check_kernel(op, run, kind, array)


def _check_graph_form(op: Op) -> None:
    """An op read back from a graph is the same: same parameters, same identity."""
    data = op.params_data()
    try:
        canonical_bytes(data)
    except (TypeError, ValueError) as error:
        raise ContractError(
            f"{op.name}: its parameters cannot be stored in a graph ({error}): params_data() must "
            "return text, numbers, bools, None, lists and dicts of them"
        ) from None
    again = make(name_of(op), data, op.version)
    _hold(
        again == op, op, f"built again from its plain parameters {data}, it is another op: {again}"
    )
    _hold(hash(again) == hash(op), op, "an equal op has another hash")
    same = again.params().tobytes() == op.params().tobytes()
    _hold(same, op, "params() of an equal op gives other bytes")
    _hold(op.params().dtype == op.parameters, op, "params() is not of the dtype `parameters`")


def _check_draws(op: Op, run: OpRunner, rows: int) -> None:
    """A draw is a function of key and size, fills the record, and is the same compiled."""
    for key in range(rows):
        plain = run.draw(op, key, 300, 411, arithmetic=PLAIN, items=key).tobytes()
        again = run.draw(op, key, 300, 411, arithmetic=PLAIN, paint=PAINT, items=key).tobytes()
        fast = run.draw(
            op, key, 300, 411, arithmetic=COMPILED, paint=OTHER_PAINT, items=key
        ).tobytes()
        _hold(
            _fields(op, plain) == _fields(op, again),
            op,
            "draw gives another record for the same key: it does not write a field, or reads "
            "something other than key, parameters and size",
        )
        _hold(_fields(op, plain) == _fields(op, fast), op, "the compiled draw gives another record")
        if not op.random:
            first = run.draw(op, 0, 300, 411, arithmetic=PLAIN, items=key).tobytes()
            _hold(
                _fields(op, plain) == _fields(op, first),
                op,
                "draw reads its key, but `random` is false: set random = True",
            )


def _check_rescale(op: Op, run: OpRunner, rows: int) -> None:
    """A record is scaled to other sizes alike, compiled or not, and does not change at its own."""
    rule: Any = op.rescale
    if rule is None:
        return
    params, before = structured(op.parameters, op.params()), (300, 411)
    for key in range(rows):
        record = run.draw(op, key, *before, arithmetic=PLAIN, items=key)
        for after in (before, (150, 206), (97, 412)):
            plain, fast = (structured(op.record, record) for _ in range(2))
            answers = {
                bool(rule(params, plain, (*before, *after))),
                bool(compiled(rule)(params, fast, (*before, *after))),
            }
            same = len(answers) == 1 and plain == fast
            _hold(same, op, f"the compiled rescale to {after} gives another record or answer")
            if after == before:
                stays = answers == {True} and plain == record
                _hold(stays, op, "rescale changes a record at the size that it was drawn for")


def _check_values(op: Op, run: OpRunner, given: Values, keys: range) -> None:
    """Compiled and plain give the same bytes, for fixed and for varying sizes."""
    height, width = sides_of(given[0][1].shape)
    varied = _accepts(op, [state_of(kind, array, (height, width)) for kind, array in given])
    for key in keys:
        slow = run(op, given, key, arithmetic=PLAIN)
        others = {"compiled": run(op, given, key)}
        if varied:
            others["compiled for sizes that differ"] = run(op, given, key, bound=(height, width))
        for how, other in others.items():
            for (kind, _), left, right in zip(given, slow.outputs, other.outputs, strict=True):
                same = left.shape == right.shape and left.tobytes() == right.tobytes()
                _hold(
                    same,
                    op,
                    f"the {kind} kernel, {how}, gives other bytes than its plain form for a value "
                    f"of {height}x{width} and key {key}{_first_difference(left, right)}",
                )
                if getattr(op, "p", None) == 0:
                    source = dict(given)[kind]
                    _hold(np.array_equal(left, source), op, f"p is 0, but the {kind} changes")


def _check_declaration(op: Op, run: OpRunner, given: Values) -> None:
    """`declare` depends only on its arguments, agrees with `out_size`, and refuses bad kinds."""
    states = tuple(state_of(kind, array) for kind, array in given)
    _hold(
        op.declare(states) == op.declare(states), op, "declare gives two answers for equal states"
    )
    strange = State.fixed("no such kind", "uint8", (8, 8, 3))
    _hold(not _accepts(op, [strange]), op, "declare accepts a kind that no kernel has a rule for")
    height, width = sides_of(given[0][1].shape)
    record = run.draw(op, 0, height, width, arithmetic=PLAIN)
    size = op.out_size(structured(op.parameters, op.params()), record, height, width)
    for (kind, array), after in zip(given, op.declare(states)[0], strict=True):
        if after.is_fixed and after.shape[2:] == array.shape[2:]:  # no other layout
            agrees = after.shape[:2] == tuple(size)[: len(after.shape)]
            _hold(agrees, op, f"it declared {after}, but out_size gives {tuple(size)}")
        rest = array.shape[2:]
        steps = [State.fixed(kind, str(array.dtype), (s, s, *rest)) for s in (16, 64, 257)]
        for small, large in pairwise(steps):
            if _accepts(op, [small]) and _accepts(op, [large]):
                grows = op.declare((small,))[1] <= op.declare((large,))[1]
                _hold(grows, op, f"scratch for {large} is smaller than for {small}")


def _check_kernel(op: Op, run: OpRunner, kind: str, array: np.ndarray) -> None:
    """A kernel writes all of dst for any old content, and the same bytes in place."""
    params = structured(op.parameters, op.params())
    (after,), scratch_bytes = op.declare((state_of(kind, array),))
    height, width = sides_of(array.shape)
    record = run.draw(op, 1, height, width, arithmetic=PLAIN)
    rest = (params, record, op.out_size(params, record, height, width), scratch_bytes)
    for arithmetic in (COMPILED, PLAIN):
        left = run.kernel(op, kind, array, after, rest, arithmetic, PAINT)
        right = run.kernel(op, kind, array, after, rest, arithmetic, OTHER_PAINT)
        _hold(
            left.tobytes() == right.tobytes(),
            op,
            f"the {arithmetic.value} {kind} kernel leaves parts of dst or reads its old content",
        )
    rule = op.kernel_of(kind, str(array.dtype))
    if rule.in_place and left.shape == array.shape and left.dtype == array.dtype:
        both = array.copy()
        scratch = PaintedMemory.painted("scratch", scratch_bytes, PAINT).inner
        compiled(rule.run)(both, both, params, record, scratch)
        _hold(both.tobytes() == left.tobytes(), op, f"the {kind} kernel gives other bytes in place")


def _examples(op: Op) -> Iterator[Values]:
    """Noise of several sizes, for the kinds that the op has a rule for.

    Raises:
        StateError: the op has no rule for images or masks of any number of channels.
    """
    refused: StateError | None = None
    found = False
    for number, (height, width) in enumerate(SIZES):
        noise = np.random.default_rng(number).integers  # noqa: TID251 - of its own
        for channels, floats in product(CHANNELS, (False, True)):
            values: list[tuple[str, np.ndarray]] = []
            if "image" in op.kernels:
                image = noise(0, 256, (height, width, channels), np.uint8)
                of_floats = (image / np.float32(128)).astype(np.float32)
                values.append(("image", of_floats if floats else image))
            if "mask" in op.kernels:
                values.append(("mask", noise(0, 200, (height, width), np.uint8)))
            try:
                op.declare(tuple(state_of(kind, array) for kind, array in values))
            except StateError as error:
                refused = error
                continue
            if values:
                found = True
                yield values
                break
    if not found:
        raise refused or StateError(
            f"{op.name} has rules for {', '.join(op.kernels)} only: pass trial values with values="
        )


def _accepts(op: Op, states: Sequence[State]) -> bool:
    try:
        op.declare(tuple(states))
    except StateError:
        return False
    return True


def _shape(op: Op, after: State, size: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of the result; it must agree with the declared state."""
    if len(after.shape) == 2:
        shape: tuple[int, ...] = size
    else:
        open_sides = iter(size)
        shape = tuple(next(open_sides) if side is None else side for side in after.shape)
    for side, declared, most in zip(shape, after.shape, after.bound, strict=True):
        fits = declared in (None, side) and side <= most
        _hold(fits, op, f"it declared {after}, but out_size gives {shape}")
    return shape


def _fields(op: Op, data: bytes) -> list[Any]:
    """Return a record's fields; padding between them is ignored."""
    record = np.frombuffer(data, op.record)[0]
    return [record[name].tobytes() for name in op.record.names or () if name != "none"]


def _first_difference(left: np.ndarray, right: np.ndarray) -> str:
    if left.shape != right.shape:
        return f": {left.shape} and {right.shape}"
    places = np.argwhere(
        left.view(storage(left.dtype.name)) != right.view(storage(right.dtype.name))
    )
    if not len(places):
        return ""
    place = tuple(int(axis) for axis in places[0])
    return f": at {place} {left[place]} and {right[place]}, and {len(places) - 1} places more"


def _hold(good: bool, op: Op, what: str) -> None:
    if not good:
        raise ContractError(f"{op.name}: {what}")
