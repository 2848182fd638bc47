"""Random choices between transforms: `one_of`, `some_of`, `random_apply`.

    image, mask = one_of(image, mask, choices=[ops.Rotate(30), flip_and_blur, None])

Each is one decision (an op without kernels, `values.choice_ops`) and an `if` for each alternative,
so only the chosen one runs. An alternative is an op, which receives all values; a function that
takes all values and returns as many; a list of these, run in order; or None, which changes nothing.

Stream names are paths. The decision's name is `one_of` (or the `stream=` given), prefixed by the
open scopes; the draws of an alternative add its number or name: `one_of/1/rotate`. So a decision
elsewhere never changes one here. Alternatives given as a dict keep their stream names when others
are inserted. Runs while a pipeline is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stoker.ops.contract.op import Op, Value
from stoker.ops.values.choice_ops import MAX_CHOICES, Chance, OneOf, SomeOf, WeightedSomeOf
from stoker.pipeline.tracing.branches import choose
from stoker.pipeline.tracing.naming import scope
from stoker.pipeline.tracing.rewrite import rewritten
from stoker.pipeline.tracing.trace import GraphTracer
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedValue

Alternative = Op | Callable[..., Any] | Sequence[Any] | None
Values = tuple[Value, ...]


def one_of(
    *values: Value,
    choices: Sequence[Alternative] | Mapping[str, Alternative],
    weights: Sequence[float] | np.ndarray | None = None,
    stream: str | None = None,
) -> Any:
    """Apply one of several alternatives, drawn for each sample.

    Args:
        values: what to transform; one decision for all of them.
        choices: the alternatives, or name -> alternative; 1 to 62.
        weights: how likely each is, relative to the sum: a list, tuple or array of finite numbers,
            none negative and not all 0; by default all are equal.
        stream: stream name of the decision, and first part of the alternatives' names.

    Returns:
        As many values as were given; a single value is not wrapped in a tuple.

    Raises:
        BuildError: there is no value or alternative; an alternative does not return as many
            values; weights do not match the alternatives.
        ParameterError: a weight is invalid.
    """
    where = stream or "one_of"
    tracer = tracer_for(values, where)
    named = _named(choices, where)
    chances = (1.0,) * len(named) if weights is None else _weights(weights, len(named), where)
    choice = tracer.choose(OneOf(chances), "choice", stream, "one_of")
    with scope(where):
        return given(among(choice, list(named.items()), values, where))


def some_of(
    *values: Value,
    choices: Sequence[Alternative] | Mapping[str, Alternative],
    n: int | tuple[int, int],
    weights: Sequence[float] | np.ndarray | None = None,
    stream: str | None = None,
) -> Any:
    """Apply some of several alternatives, each at most once, in the order given.

    Args:
        values: what to transform; one decision for all of them.
        choices: the alternatives, or name -> alternative; 1 to 62.
        n: how many, or (least, most): a number drawn uniformly from that range.
        weights: how likely each is, as for `one_of`: they are drawn one after the other, each by
            its weight among those that are left. By default all are equally likely.
        stream: stream name of the decision, and first part of the alternatives' names.

    Returns:
        As many values as were given; a single value is not wrapped in a tuple.

    Raises:
        BuildError: there is no value or alternative; an alternative does not return as many
            values; weights do not match the alternatives.
        ParameterError: n is not an integer, or more than the number of alternatives (with weights,
            of those that have a weight above 0); a weight is invalid.
    """
    where = stream or "some_of"
    tracer = tracer_for(values, where)
    named = _named(choices, where)
    given_n = tuple(n) if isinstance(n, list | tuple) else (n, n)
    if len(given_n) != 2:
        raise fault(f"{where}: expected n to be an integer, or (least, most), got {n!r}")
    fewest, most = given_n
    decision: SomeOf | WeightedSomeOf = SomeOf(len(named), fewest, most)
    if weights is not None:
        decision = WeightedSomeOf(_weights(weights, len(named), where), fewest, most)
    chosen = tracer.choose(decision, "chosen", stream, "some_of")
    with scope(where):
        for index, (name, choice) in enumerate(named.items()):
            wanted = chosen // 2**index % 2 == 1
            values = _either(wanted, name, choice, values, where)
    return given(values)


def _weights(weights: object, count: int, where: str) -> tuple[float, ...]:
    """Return the weights of this many alternatives; their values are not checked."""
    listed = weights.tolist() if isinstance(weights, np.ndarray) else weights
    if not isinstance(listed, list | tuple) or len(listed) != count:
        raise fault(
            f"{where}: expected weights to be a list or tuple of numbers, one for each of "
            f"{count} choices, got {weights!r}"
        )
    return tuple(listed)


def random_apply(
    *values: Value, apply: Alternative, p: float = 0.5, stream: str | None = None
) -> Any:
    """With probability p, apply an op, a function or a list of these; else change nothing.

    Args:
        values: what to transform; one decision for all of them.
        apply: as an alternative of `one_of`.
        p: probability.
        stream: stream name of the decision, and first part of the names of the ops applied.

    Returns:
        As many values as were given; a single value is not wrapped in a tuple.

    Raises:
        BuildError: there is no value, or `apply` does not return as many values.
    """
    where = stream or "random_apply"
    tracer = tracer_for(values, where)
    applied = tracer.choose(Chance(p), "apply", stream, "random_apply") == 1
    with scope(where):
        return given(_either(applied, "", apply, values, where))


def tracer_for(values: Values, where: str) -> GraphTracer:
    """Return the pipeline that values belong to.

    Raises:
        BuildError: there is no value, or one is not a value of a pipeline.
    """
    for value in values:
        if not isinstance(value, TracedValue):
            raise fault(f"{where}: expected fields of a sample, got {type(value).__name__}")
    if not values:
        raise fault(f"{where}: expected at least one field of a sample")
    tracer: GraphTracer = values[0].tracer  # type: ignore[assignment]
    return tracer


def _named(
    choices: Sequence[Alternative] | Mapping[str, Alternative], where: str
) -> dict[str, Alternative]:
    if isinstance(choices, Mapping):
        named = dict(choices)
    elif isinstance(choices, Sequence) and not isinstance(choices, str):
        named = {str(index): choice for index, choice in enumerate(choices)}
    else:
        named = {}
    if not 1 <= len(named) <= MAX_CHOICES:
        raise fault(
            f"{where}: expected choices to be a list, or a dict of names, of 1 to {MAX_CHOICES} "
            f"ops or functions, got {len(named) or type(choices).__name__}"
        )
    return named


def among(
    choice: TracedValue,
    named: Sequence[tuple[str, Alternative]],
    values: Values,
    where: str,
    first: int = 0,
) -> Values:
    """Run alternative `choice` - `first`, by nested branches: 62 alternatives are 6 blocks deep."""
    if len(named) == 1:
        name, alternative = named[0]
        return _run(name, alternative, values, where)
    half = len(named) // 2
    result: Values = choose(
        choice < first + half,
        lambda: among(choice, named[:half], values, where, first),
        lambda: among(choice, named[half:], values, where, first + half),
    )
    return result


def _either(
    wanted: TracedValue, name: str, alternative: Alternative, values: Values, where: str
) -> Values:
    result: Values = choose(wanted, lambda: _run(name, alternative, values, where), lambda: values)
    return result


def _run(name: str, alternative: Alternative, values: Values, where: str) -> Values:
    if not name:
        return _applied(alternative, values, where)
    with scope(name):
        return _applied(alternative, values, f"{where}/{name}")


def _applied(alternative: Alternative, values: Values, where: str) -> Values:
    if alternative is None:
        return values
    if isinstance(alternative, list | tuple):
        for part in alternative:
            values = _applied(part, values, where)
        return values
    if not callable(alternative):
        raise fault(
            f"{where}: expected an op, a function of {len(values)} values, a list of those or "
            f"None, got {type(alternative).__name__}"
        )
    result = rewritten(alternative)(*values)
    results = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(results) != len(values) or not all(isinstance(r, TracedValue) for r in results):
        got = ", ".join(type(r).__name__ for r in results)
        raise fault(
            f"{where}: expected {len(values)} values back from "
            f"{getattr(alternative, '__name__', type(alternative).__name__)}, got {got or 'none'}"
        )
    return results


def given(values: Values) -> Any:
    """Return values as the author receives them: a tuple, or one value alone."""
    return values[0] if len(values) == 1 else values
