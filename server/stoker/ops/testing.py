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
from itertools import pairwise, product
from typing import Any, Final

import numpy as np

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops._testing.check_folds import check_folds
from stoker.ops._testing.check_items import check_items
from stoker.ops._testing.memory import OTHER_PAINT, PAINT, structured
from stoker.ops._testing.painted import PaintedMemory
from stoker.ops._testing.runner import (
    Applied,
    ContractError,
    OpRunner,
    Values,
    first_difference,
    hold,
    record_values,
    sides_of,
    state_of,
)
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import make, name_of
from stoker.ops.contract.states import State, StateError
from stoker.protocol.canonical import canonical_bytes

__all__ = ["Applied", "ContractError", "OpRunner", "check_op", "structured"]

SIZES: Final = ((17, 13), (33, 64), (1, 9), (8, 1), (49, 97))
CHANNELS: Final = (3, 1, 4, 2)


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
    check_items(op, hold, rows)
    check_folds(op, hold, rows)
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
    hold(
        again == op, op, f"built again from its plain parameters {data}, it is another op: {again}"
    )
    hold(hash(again) == hash(op), op, "an equal op has another hash")
    same = again.params().tobytes() == op.params().tobytes()
    hold(same, op, "params() of an equal op gives other bytes")
    hold(op.params().dtype == op.parameters, op, "params() is not of the dtype `parameters`")


def _check_draws(op: Op, run: OpRunner, rows: int) -> None:
    """A draw is a function of key and size, fills the record, and is the same compiled."""
    for key in range(rows):
        plain = run.draw(op, key, 300, 411, arithmetic=PLAIN, items=key).tobytes()
        again = run.draw(op, key, 300, 411, arithmetic=PLAIN, paint=PAINT, items=key).tobytes()
        fast = run.draw(
            op, key, 300, 411, arithmetic=COMPILED, paint=OTHER_PAINT, items=key
        ).tobytes()
        hold(
            record_values(op, plain) == record_values(op, again),
            op,
            "draw gives another record for the same key: it does not write a field, or reads "
            "something other than key, parameters and size",
        )
        hold(
            record_values(op, plain) == record_values(op, fast),
            op,
            "the compiled draw gives another record",
        )
        if not op.random:
            first = run.draw(op, 0, 300, 411, arithmetic=PLAIN, items=key).tobytes()
            hold(
                record_values(op, plain) == record_values(op, first),
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
            hold(same, op, f"the compiled rescale to {after} gives another record or answer")
            if after == before:
                stays = answers == {True} and plain == record
                hold(stays, op, "rescale changes a record at the size that it was drawn for")


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
                hold(
                    same,
                    op,
                    f"the {kind} kernel, {how}, gives other bytes than its plain form for a value "
                    f"of {height}x{width} and key {key}{first_difference(left, right)}",
                )
                if getattr(op, "p", None) == 0:
                    source = dict(given)[kind]
                    hold(np.array_equal(left, source), op, f"p is 0, but the {kind} changes")


def _check_declaration(op: Op, run: OpRunner, given: Values) -> None:
    """`declare` depends only on its arguments, agrees with `out_size`, and refuses bad kinds."""
    states = tuple(state_of(kind, array) for kind, array in given)
    hold(op.declare(states) == op.declare(states), op, "declare gives two answers for equal states")
    strange = State.fixed("no such kind", "uint8", (8, 8, 3))
    hold(not _accepts(op, [strange]), op, "declare accepts a kind that no kernel has a rule for")
    height, width = sides_of(given[0][1].shape)
    record = run.draw(op, 0, height, width, arithmetic=PLAIN)
    size = op.out_size(structured(op.parameters, op.params()), record, height, width)
    for (kind, array), after in zip(given, op.declare(states)[0], strict=True):
        if after.is_fixed and after.shape[2:] == array.shape[2:]:  # no other layout
            agrees = after.shape[:2] == tuple(size)[: len(after.shape)]
            hold(agrees, op, f"it declared {after}, but out_size gives {tuple(size)}")
        rest = array.shape[2:]
        steps = [State.fixed(kind, str(array.dtype), (s, s, *rest)) for s in (16, 64, 257)]
        for small, large in pairwise(steps):
            if _accepts(op, [small]) and _accepts(op, [large]):
                grows = op.declare((small,))[1] <= op.declare((large,))[1]
                hold(grows, op, f"scratch for {large} is smaller than for {small}")


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
        hold(
            left.tobytes() == right.tobytes(),
            op,
            f"the {arithmetic.value} {kind} kernel leaves parts of dst or reads its old content",
        )
    rule = op.kernel_of(kind, str(array.dtype))
    if rule.in_place and left.shape == array.shape and left.dtype == array.dtype:
        both = array.copy()
        scratch = PaintedMemory.painted("scratch", scratch_bytes, PAINT).inner
        compiled(rule.run)(both, both, params, record, scratch)
        hold(both.tobytes() == left.tobytes(), op, f"the {kind} kernel gives other bytes in place")


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
