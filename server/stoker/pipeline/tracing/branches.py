"""The functions that rewritten branches call (see `stoker.pipeline.tracing.rewrite`).

If the condition is a Python value, each does what Python does. If the condition is decided for each
sample, both branches are traced, each into its block, and the variables they assign are joined:
values and numbers become results of the `if`; tuples, lists and dicts join element by element; an
object that is the same in both branches is kept. A variable that cannot join becomes a `Missing`,
which raises on use and names the variable and the line of the `if`. A branch must not change
objects from outside of it: both branches are traced, so both would change them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from stoker.ops.contract.numbers import settled
from stoker.pipeline.graph.sites import Site, user_site
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedValue, Unusable

RESULT: Final = "_stoker_result"
"""Variable that holds the return value of a rewritten function."""

Build = Callable[[list[TracedValue]], Any]


class Missing(Unusable):
    """A variable that one branch leaves unset, or that cannot be both values; refused on use."""

    def __init__(self, name: str, why: str, site: Site) -> None:
        self.__dict__.update(_name=name, _why=why, _site=site)

    def refuse(self, site: Site | None = None) -> NoReturn:
        """Raise the error that names the variable and the reason."""
        what = "what is returned" if self._name == RESULT else f"variable {self._name!r}"
        raise fault(f"{what} cannot be used: {self._why} ({self._site})", site)

    def __getattr__(self, name: str) -> Any:
        self.refuse()

    def _refuse_use(self, *_: Any, **__: Any) -> Any:
        self.refuse()

    __call__ = __iter__ = __bool__ = __getitem__ = _refuse_use


def get(read: Callable[[], Any], name: str) -> Any:
    """Return a variable, or a `Missing` if it is not set yet."""
    try:
        return read()
    except NameError:
        return Missing(name, "it is not set in every branch of the `if`", user_site())


def run_if(
    condition: Any,
    then: Callable[..., tuple[Any, ...]],
    otherwise: Callable[..., tuple[Any, ...]],
    values: tuple[Any, ...],
    names: tuple[str, ...],
) -> tuple[Any, ...]:
    """Run one branch, or trace both; return the variables that they assign."""
    if not isinstance(condition, TracedValue):
        return then(*values) if condition else otherwise(*values)
    return _both(condition, lambda: then(*values), lambda: otherwise(*values), names)


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """`then() if condition else otherwise()`."""
    if not isinstance(condition, TracedValue):
        return then() if condition else otherwise()
    (result,) = _both(condition, lambda: (then(),), lambda: (otherwise(),), ("the ternary",))
    return result


def both(*parts: Callable[[], Any]) -> Any:
    """`a and b and ...`: a false Python value ends it; traced values are joined."""
    result = parts[0]()
    for part in parts[1:]:
        if isinstance(result, TracedValue):
            result = result.tracer.also(result, part, ends=False)
        elif not result:
            return result
        else:
            result = part()
    return result


def either(*parts: Callable[[], Any]) -> Any:
    """`a or b or ...`: a true Python value ends it; traced values are joined."""
    result = parts[0]()
    for part in parts[1:]:
        if isinstance(result, TracedValue):
            result = result.tracer.also(result, part, ends=True)
        elif result:
            return result
        else:
            result = part()
    return result


def negation(value: Any) -> Any:
    """`not value`."""
    return ~value if isinstance(value, TracedValue) else not value


def member(value: Any, among: Any) -> Any:
    """`value in among`.

    Raises:
        BuildError: the value is decided for each sample, and `among` does not hold numbers.
    """
    if not isinstance(value, TracedValue):
        return value in among
    if not isinstance(among, tuple | list | set | frozenset | range):
        raise fault(
            f"{value.what} in ...: expected a tuple, list, set or range of numbers, got "
            f"{type(among).__name__}"
        )
    result: Any = False
    for number in sorted(among) if isinstance(among, set | frozenset) else among:
        equal = value == number
        result = equal if result is False else result | equal
    return result


def length(function: Any, value: Any) -> Any:
    """`len(value)`; of a traced value it is the first side, or the number of boxes."""
    if function is len and isinstance(value, TracedValue):
        return value.shape[0]
    return function(value)


def plain(condition: Any, word: str, name: str = "") -> Any:
    """Return a condition, unless it is decided for each sample: Python cannot branch on that.

    Args:
        condition: of an `if` or `while`.
        word: "while", "if" (it leaves its branches), or "change" (they change an object).
        name: the variable that is changed.

    Raises:
        BuildError: naming the line.
    """
    if not isinstance(condition, TracedValue):
        return condition
    if word == "while":
        raise fault(
            f"`while` on {condition.what}, which is decided for each sample: a pipeline has no "
            f"loops over values of a sample; loop over a Python range, with an `if` inside"
        )
    if word == "match":
        raise fault(
            f"`match` on {condition.what}, which is decided for each sample: write `if` and `elif` "
            "with comparisons, such as `if sample.label == 3` or `sample.label in (1, 2)`"
        )
    if word == "change":
        raise fault(
            f"a branch on {condition.what}, which is decided for each sample, changes {name!r} in "
            "place. Every branch is traced, so it would be changed for every sample: assign a new "
            "object in the branch, such as {**old, 'image': image} or [*old, image]; a function "
            "that the branch calls can return it"
        )
    raise fault(
        f"an `if` on {condition.what}, which is decided for each sample, contains break, continue, "
        "del, global, nonlocal, or a return from a loop or from an `if` whose branches may both "
        "continue: assign to a variable in both branches instead, and return after the `if`"
    )


def _both(
    condition: TracedValue,
    then: Callable[[], tuple[Any, ...]],
    otherwise: Callable[[], tuple[Any, ...]],
    names: tuple[str, ...],
) -> tuple[Any, ...]:
    site = user_site()
    leaves: list[tuple[Any, Any]] = []
    rebuilt: list[Build] = []

    def pair(left: tuple[Any, ...], right: tuple[Any, ...]) -> list[tuple[Any, Any]]:
        for name, one, other in zip(names, left, right, strict=True):
            rebuilt.append(_pair(name, one, other, leaves, site))
        return leaves

    joined = condition.tracer.branch(condition, then, otherwise, pair)
    return tuple(build(joined) for build in rebuilt)


def _pair(name: str, left: Any, right: Any, leaves: list[tuple[Any, Any]], site: Site) -> Build:
    """Pair the leaves of two values; return a function that rebuilds the joined value."""
    if left is right:
        return lambda _: left
    left, right = settled(left), settled(right)
    if _is_number(left) and _is_number(right):
        return _pair_numbers(left, right, leaves)
    if isinstance(left, tuple | list) and type(left) is type(right) and len(left) == len(right):
        parts = [_pair(name, a, b, leaves, site) for a, b in zip(left, right, strict=True)]
        kind = type(left)
        return lambda results: kind([part(results) for part in parts])
    if isinstance(left, dict) and isinstance(right, dict) and list(left) == list(right):
        entries = {key: _pair(name, left[key], right[key], leaves, site) for key in left}
        return lambda results: {key: part(results) for key, part in entries.items()}
    why = "only one branch of an `if` sets it"
    if not isinstance(left, Missing) and not isinstance(right, Missing):
        why = f"the branches of an `if` give {_told(left)} and {_told(right)}, which cannot join"
    missing = Missing(name, why, site)
    return lambda _: missing


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__


def _pair_numbers(left: Any, right: Any, leaves: list[tuple[Any, Any]]) -> Build:
    if type(left) is type(right) and not isinstance(left, TracedValue) and left == right:
        return lambda _: left
    index = len(leaves)
    leaves.append((left, right))
    return lambda results: results[index]


def _is_number(value: Any) -> bool:
    return isinstance(value, TracedValue | bool | int | float)
