"""The stream of each operation of a loader, and what operations on one stream must have in common.

An operation draws from a stream of its own, named after field and class. One instance in two
pipelines keeps its first name, so it makes one decision in both. Operations with the class
attribute `stream` draw from that stream in every pipeline. Operations on one stream read the same
numbers, but decide alike only if their parameters are the same, which `check` enforces. After a
`SynchronizeSeed` streams are named after that mark instead of the field.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Final

from stoker.compat.ffcv.operation_settings import settings
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.protocol.errors import BuildError

LOOKS: Final = {"fill", "interpolation"}
"""Attributes that decide about values alone; operations on one stream may differ in them."""


class OperationStreams:
    """The streams of a loader's operations."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._uses: dict[str, list[tuple[str, Operation]]] = {}
        self._marks: dict[str, int | None] = {}
        self._repeats: Counter[tuple[str, str]] = Counter()
        self._drawn: dict[int, dict[str, dict[str, str]]] = {}
        self._seeded: dict[bool, dict[str, str]] = {True: {}, False: {}}

    def mark(self, field: str, offset: int | None) -> None:
        """Note a `SynchronizeSeed` in the pipeline of a field; None ends the marked part."""
        self._marks[field] = offset
        if offset is not None:
            self._drawn.setdefault(offset, {}).setdefault(field, {})

    def name(self, field: str, operation: Operation, title: str | None = None) -> str:
        """Return the name of an operation's stream, and note the use.

        Args:
            field: whose pipeline it is in.
            operation: the operation.
            title: its name in marked parts; by default its class.
        """
        kind = title or type(operation).__name__
        if id(operation) not in self._names:
            declared = type(operation).stream  # an instance may use the name for itself
            self._names[id(operation)] = declared or self._own(field, operation, kind)
        name = self._names[id(operation)]
        self._uses.setdefault(name, []).append((field, operation))
        return name

    def drew(self, field: str, operation: Operation, title: str | None = None) -> None:
        """Note that an operation draws."""
        offset = self._marks.get(field)
        if offset is not None:
            kind = title or type(operation).__name__
            self._drawn[offset][field][self._names[id(operation)]] = kind

    def seeds(self, field: str, name: str, *, is_batch_op: bool) -> None:
        """Note that an operation, with this name in messages, seeds its draws as others do."""
        self._seeded[is_batch_op].setdefault(field, name)

    def check(self) -> None:
        """Compare the operations of each stream and of each mark, and those that seed.

        Raises:
            BuildError: two of one stream have a parameter with different values, a mark shares
                nothing, or of two that seed alike one gets single rows and the other one all.
        """
        whole, single = self._seeded[True], self._seeded[False]
        alone = single.keys() - whole.keys()
        if len(whole) == 1 and alone and not whole.keys() & single.keys():
            (name,), other = whole.values(), min(alone)
            raise BuildError(
                f"{name} is a batch op, and {single[other]} is not. Both seed their draws alike, "
                "but would not draw alike: single numbers of a batch op come from the first row of "
                "the batch, others from the row itself. Set is_batch_op = True on the class of the "
                "other one too"
            )
        for name, uses in self._uses.items():
            for use in uses[1:]:
                _compare(name, uses[0], use)
        for offset, fields in self._drawn.items():
            _check_mark(f"SynchronizeSeed({offset})", fields)

    def _own(self, field: str, operation: Operation, kind: str) -> str:
        """Return mark or field, class, and a number if the class repeats."""
        offset = self._marks.get(field)
        if offset is not None:
            base = f"SynchronizeSeed({offset})/{kind}"
            self._repeats[field, base] += 1
            count = self._repeats[field, base]
            return base if count == 1 else f"{base}/{count}"
        base = f"{field}/{type(operation).__name__}"
        taken = set(self._names.values())
        names = [base, *(f"{base}/{count}" for count in range(2, len(taken) + 3))]
        return next(name for name in names if name not in taken)


def _check_mark(mark: str, fields: dict[str, dict[str, str]]) -> None:
    """Check that a mark shares decisions; `fields` has, by field, the streams drawn after it."""
    for field, drawn in fields.items():
        if len(fields) == 1 or not drawn:
            what = "no operation after it draws" if not drawn else "no other pipeline has it"
            raise BuildError(
                f"pipelines[{field!r}]: {mark} shares nothing, because {what}: put it before the "
                "operations that should decide alike, in the pipelines of all their fields"
            )
    for (one, first), (two, second) in itertools.combinations(fields.items(), 2):
        here, there = (
            [d[n] for n in d if n not in o] for d, o in ((first, second), (second, first))
        )
        if here and there:
            raise BuildError(
                f"{mark}: {', '.join(here)} of field {one!r} and {', '.join(there)} of field "
                f"{two!r} would not decide alike, because their classes differ. If they should, "
                "set the same class attribute stream = '...' on both; otherwise put them before "
                f"{mark} or after SynchronizeSeed(None)"
            )


def _compare(name: str, first: tuple[str, Operation], second: tuple[str, Operation]) -> None:
    parameters = [_parameters(operation) for _, operation in (first, second)]
    for key in parameters[0].keys() & parameters[1].keys():
        one, two = (found[key] for found in parameters)
        if _form(one) != _form(two):
            (field, operation), (other, another) = first, second
            raise BuildError(
                f"{type(another).__name__} of field {other!r}: expected {key}={one!r}, as "
                f"{type(operation).__name__} of field {field!r} has, got {key}={two!r}. Both draw "
                f"from the stream {name!r}, so with other parameters they would make different "
                "decisions: give both the same"
            )


def _parameters(operation: Any) -> dict[str, Any]:
    found = vars(operation).items()
    return {key: value for key, value in found if key not in LOOKS and not key.startswith("_")}


def _form(value: Any) -> Any:
    """Return a comparable form; two instances of a torch module are compared by their text."""
    return repr(value) if callable(value) else settings(value)
