"""Declared parameters: one annotation says what a parameter of an op is.

    size: Annotated[int | tuple[int, int], SidePair(1), "the output side, or (height, width)"]
    p: Annotated[float, Number(0.0, 1.0), "the probability"] = 0.5

From it follow the check with its error, the run-time dtype and `params()`, the signature and the
docstring of the op's function, its stub, and its entry in docs/ops.md. A parameter whose annotation
has no rule is not checked and not stored; its op does both by hand.

The run-time form of a parameter has its name: a number is f8, an integer i4, a flag and the index
of a choice u1. A range has two fields, `<stem>_low` and `<stem>_high`, where the stem is the name
without a final `_range`. `size` is stored as `height` and `width`, another pair as `<name>_y` and
`<name>_x`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, get_origin

import numpy as np

from stoker.ops.contract import checks
from stoker.ops.contract.checks import MOST_CHANNELS

Range = tuple[float, float]
"""(low, high), both inclusive unless the op says otherwise."""
WholeRange = tuple[int, int]
"""(low, high) of whole numbers, both inclusive."""
Sides = int | tuple[int, int]
"""A side in pixels, or (height, width)."""
PerChannel = float | tuple[float, ...]
"""One number for all channels of an image, or one for each."""
Fields = list[tuple[Any, ...]]
INT32: Final = np.iinfo(np.int32)


@dataclass(frozen=True)
class ParameterRule:
    """Base of the rules for one parameter.

    Attributes:
        per_row: whether a value of the sample, or a draw, may take the place of the number; it is
            then checked for each row, with the bounds of the rule.
    """

    per_row: bool = dataclasses.field(default=False, kw_only=True, repr=False)

    def check(self, op: str, name: str, value: object) -> Any:
        """Return a value in its canonical form.

        Raises:
            ParameterError: it breaks the rule.
        """
        raise NotImplementedError

    def fields(self, name: str) -> Fields:
        """Return the run-time fields of a parameter, as for `np.dtype`."""
        raise NotImplementedError

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers of a checked value, one for each of `fields`."""
        return (value,)

    @property
    def text(self) -> str:
        """The values that are allowed, for people."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(ParameterRule):
    """A number from `low` to `high`, stored as float64."""

    low: float
    high: float

    def check(self, op: str, name: str, value: object) -> float:
        """Return the number as a float."""
        return checks.number(op, name, value, self.low, self.high)

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "f8")]

    @property
    def text(self) -> str:
        """The bounds."""
        return f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Whole(ParameterRule):
    """An integer from `low` to `high`.

    Attributes:
        stored: the dtype of its run-time form.
    """

    low: int
    high: int
    stored: str = "i4"

    def check(self, op: str, name: str, value: object) -> int:
        """Return the integer."""
        return checks.integer(op, name, value, self.low, self.high)

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, self.stored)]

    @property
    def text(self) -> str:
        """The bounds."""
        return f"an integer from {self.low} to {self.high}"


@dataclass(frozen=True)
class Flag(ParameterRule):
    """True or False, stored as 1 or 0."""

    def check(self, op: str, name: str, value: object) -> bool:
        """Return the flag."""
        if not isinstance(value, bool):
            raise checks.refuse(op, name, "True or False", value)
        return value

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "u1")]

    @property
    def text(self) -> str:
        """Both values."""
        return "True or False"


@dataclass(frozen=True)
class Word(ParameterRule):
    """One of several words, stored as its index."""

    words: tuple[str, ...]

    def check(self, op: str, name: str, value: object) -> str:
        """Return the word."""
        return checks.choice(op, name, value, self.words)

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "u1")]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the index of the word."""
        return (self.words.index(value),)

    @property
    def text(self) -> str:
        """The words."""
        return ", ".join(self.words[:-1]) + f" or {self.words[-1]}"


@dataclass(frozen=True)
class Span(ParameterRule):
    """A range (low, high) of numbers, both from `low` to `high`."""

    low: float
    high: float

    def check(self, op: str, name: str, value: object) -> tuple[float, float]:
        """Return both ends as floats."""
        return checks.span(op, name, value, self.low, self.high)

    def fields(self, name: str) -> Fields:
        """Return a field for each end."""
        return _ends(name, "f8")

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return both ends."""
        return tuple(value)

    @property
    def text(self) -> str:
        """The bounds."""
        return f"(low, high) from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Interval(Span):
    """A range (low, high) of numbers above `low`, and at most `high`."""

    def check(self, op: str, name: str, value: object) -> tuple[float, float]:
        """Return both ends as floats."""
        return checks.interval(op, name, value, self.low, self.high)

    @property
    def text(self) -> str:
        """The bounds."""
        return f"(low, high) above {self.low:g} and at most {self.high:g}"


@dataclass(frozen=True)
class WholeSpan(Span):
    """A range (low, high) of integers, both from `low` to `high` and both inclusive."""

    low: int
    high: int

    def check(self, op: str, name: str, value: object) -> tuple[int, int]:
        """Return both ends."""
        return checks.integer_span(op, name, value, self.low, self.high)

    def fields(self, name: str) -> Fields:
        """Return a field for each end."""
        return _ends(name, "i4")

    @property
    def text(self) -> str:
        """The bounds."""
        return f"integers {super().text}"


@dataclass(frozen=True)
class Spread(ParameterRule):
    """A range (low, high) of numbers from -most to most; a number d is (-d, d)."""

    most: float

    def check(self, op: str, name: str, value: object) -> tuple[float, float]:
        """Return both ends as floats."""
        return checks.spread(op, name, value, self.most)

    def fields(self, name: str) -> Fields:
        """Return a field for each end."""
        return _ends(name, "f8")

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return both ends."""
        return tuple(value)

    @property
    def text(self) -> str:
        """The bounds."""
        return f"(low, high) from {-self.most:g} to {self.most:g}, or d for (-d, d)"


@dataclass(frozen=True)
class SidePair(ParameterRule):
    """A number, or (height, width), from `least` to `most`; stored as two integers.

    Attributes:
        sides: names of both numbers.
    """

    least: int
    most: int = checks.MAX_SIDE
    sides: str = "height, width"

    def check(self, op: str, name: str, value: object) -> tuple[int, int]:
        """Return (height, width)."""
        return checks.pair(op, name, value, self.least, self.most, self.sides)

    def fields(self, name: str) -> Fields:
        """Return a field for each side."""
        names = ("height", "width") if name == "size" else (f"{name}_y", f"{name}_x")
        return [(side, "i4") for side in names]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return both sides."""
        return tuple(value)

    @property
    def text(self) -> str:
        """The bounds."""
        return f"an integer, or ({self.sides}), from {self.least} to {self.most}"


@dataclass(frozen=True)
class Levels(ParameterRule):
    """A level for all channels, or one for each; stored for the most channels of an image."""

    def check(self, op: str, name: str, value: object) -> tuple[float, ...]:
        """Return the levels as a tuple."""
        return checks.levels(op, name, value)

    def fields(self, name: str) -> Fields:
        """Return one field; float32 holds every level exactly."""
        return [(name, "f4", (MOST_CHANNELS,))]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return a level for each channel."""
        rest = value * MOST_CHANNELS if len(value) == 1 else (0,) * MOST_CHANNELS
        return ((*value, *rest)[:MOST_CHANNELS],)

    @property
    def text(self) -> str:
        """The values, by the dtype of an image."""
        return "an integer from 0 to 255 (65535 of uint16, any of int16), a float of floats"


@dataclass(frozen=True)
class ChannelNumbers(ParameterRule):
    """A number for all channels, or one for each; stored for the most channels of an image."""

    positive: bool = False

    def check(self, op: str, name: str, value: object) -> tuple[float, ...]:
        """Return the numbers as a tuple of floats."""
        return checks.numbers(op, name, value, self.positive)

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "f4", (MOST_CHANNELS,))]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers, repeated up to the most channels of an image."""
        return (np.resize(value, MOST_CHANNELS),)

    @property
    def text(self) -> str:
        """The values."""
        return ("above 0, " if self.positive else "") + "one for all channels or one for each"


@dataclass(frozen=True)
class MaskClass(ParameterRule):
    """A number of a class in a mask; stored as an array of one, as kernels take fills."""

    def check(self, op: str, name: str, value: object) -> int:
        """Return the number."""
        return checks.integer(op, name, value, int(INT32.min), int(INT32.max))

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "i4", (1,))]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the number as a sequence of one."""
        return ((value,),)

    @property
    def text(self) -> str:
        """The values."""
        return "a number of the mask's dtype"


@dataclass(frozen=True)
class ClassNumbers(ParameterRule):
    """Numbers of classes, at most `most`, in ascending order; stored as an array and their count.

    Attributes:
        most: maximum count.
    """

    most: int

    def check(self, op: str, name: str, value: object) -> tuple[int, ...]:
        """Return the numbers, each once."""
        return checks.class_numbers(op, name, value, self.most)

    def fields(self, name: str) -> Fields:
        """Return the field of the numbers, and that of their count."""
        return [(name, "i4", (self.most,)), (f"{name}_count", "i4")]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers, filled up with zeros, and their count."""
        return (*value, *[0] * (self.most - len(value))), len(value)

    @property
    def text(self) -> str:
        """The values."""
        return f"a class number, or at most {self.most} of them"


@dataclass(frozen=True)
class OwnRule(ParameterRule):
    """The rule of one op for a parameter of a form of its own.

    Attributes:
        settle: `settle(op, value)` returns the canonical form, or raises a ParameterError.
        values: the values that are allowed, for people.
        stored: the run-time fields, as for `np.dtype`.
        numbers: the numbers of a canonical value, one for each field; by default its items.
    """

    settle: Callable[[str, Any], Any]
    values: str
    stored: tuple[tuple[Any, ...], ...]
    numbers: Callable[[Any], tuple[Any, ...]] = tuple

    def check(self, op: str, name: str, value: object) -> Any:
        """Return the canonical form."""
        return self.settle(op, value)

    def fields(self, name: str) -> Fields:
        """Return the fields that the op names."""
        return list(self.stored)

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers."""
        return self.numbers(value)

    @property
    def text(self) -> str:
        """The values."""
        return self.values


Probability = Annotated[float, Number(0.0, 1.0), "the probability"]
"""The parameter `p`."""


def both_sides(size: Sides) -> tuple[int, int]:
    """Return (height, width) of a checked parameter with the rule `SidePair`."""
    return size if isinstance(size, tuple) else (size, size)


def _ends(name: str, dtype: str) -> Fields:
    stem = name.removesuffix("_range")
    return [(f"{stem}_low", dtype), (f"{stem}_high", dtype)]


def rules_of(cls: type[Any]) -> Mapping[str, ParameterRule]:
    """Return the declared parameters of an op class, by name, in the order of its fields."""
    found = (
        (name, [m for m in meta if isinstance(m, ParameterRule)]) for name, meta in _metadata(cls)
    )
    return {name: rules[0] for name, rules in found if rules}


def meanings_of(cls: type[Any]) -> Mapping[str, str]:
    """Return what the declared parameters of an op class mean, by name."""
    return {name: one for name, meta in _metadata(cls) for one in meta if isinstance(one, str)}


def types_of(cls: type[Any]) -> Mapping[str, Any]:
    """Return the annotations of an op class's fields, by name.

    They are evaluated if the module postpones that, unless a name of them exists for type checkers
    alone: such a class declares nothing.
    """
    found: dict[str, Any] = {field.name: field.type for field in dataclasses.fields(cls)}
    if any(isinstance(kind, str) for kind in found.values()):
        with contextlib.suppress(NameError):
            hints = typing.get_type_hints(cls, include_extras=True)
            found = {name: hints[name] for name in found}
    return found


def _metadata(cls: type[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the name and the metadata of each annotated field of a dataclass."""
    for name, kind in types_of(cls).items():
        if get_origin(kind) is Annotated:
            yield name, kind.__metadata__


class DeclaredLayout:
    """The class attribute `Op.parameters` of ops that do not give one: follows from the rules."""

    def __get__(self, _: object, cls: type[Any]) -> np.dtype[Any]:
        rules = rules_of(cls).items() if dataclasses.is_dataclass(cls) else ()
        return _dtype(tuple(field for name, rule in rules for field in rule.fields(name)))


@lru_cache(maxsize=1024)
def _dtype(fields: tuple[tuple[Any, ...], ...]) -> np.dtype[Any]:
    return np.dtype(list(fields) or [("none", "u1")])
