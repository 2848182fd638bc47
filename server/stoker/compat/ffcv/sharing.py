"""The stream of each operation of a loader, and what operations on one stream must have in common.

An operation draws from a stream of its own, named after field and class. One instance in two
pipelines keeps its first name, so it makes one decision in both. Operations with the class
attribute `stream` draw from that stream in every pipeline. Operations on one stream read the same
numbers, but decide alike only if their parameters are the same, which `check` enforces.
"""

from __future__ import annotations

from typing import Any, Final

from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.settings import settings
from stoker.protocol.errors import BuildError

LOOKS: Final = {"fill", "interpolation"}
"""Attributes that decide about values alone; operations on one stream may differ in them."""


class Streams:
    """The streams of a loader's operations."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._uses: dict[str, list[tuple[str, Operation]]] = {}

    def name(self, field: str, operation: Operation) -> str:
        """Return the name of an operation's stream, and note the use."""
        if id(operation) not in self._names:
            declared = type(operation).stream  # an instance may use the name for itself
            self._names[id(operation)] = declared or self._own(field, operation)
        name = self._names[id(operation)]
        self._uses.setdefault(name, []).append((field, operation))
        return name

    def _own(self, field: str, operation: Operation) -> str:
        """Return field, class, and a number if the class repeats."""
        base = f"{field}/{type(operation).__name__}"
        taken = set(self._names.values())
        names = [base, *(f"{base}/{count}" for count in range(2, len(taken) + 3))]
        return next(name for name in names if name not in taken)

    def check(self) -> None:
        """Compare the operations of each stream.

        Raises:
            BuildError: two of them have a parameter with different values.
        """
        for name, uses in self._uses.items():
            for use in uses[1:]:
                _compare(name, uses[0], use)


def _compare(name: str, first: tuple[str, Operation], second: tuple[str, Operation]) -> None:
    parameters = [_parameters(operation) for _, operation in (first, second)]
    for key in parameters[0].keys() & parameters[1].keys():
        one, two = (found[key] for found in parameters)
        if settings(one) != settings(two):
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
