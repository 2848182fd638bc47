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
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, get_origin
from weakref import WeakKeyDictionary

import numpy as np

from stoker.ops.contract.parameter_limits import (
    FLOAT_MAX,
    MAX_SIDE,
    MOST_CHANNELS,
    is_integer,
    is_number,
    refuse,
)

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
        form = self.form(value)
        if form is None:
            raise refuse(op, name, self.expected, value)
        return form

    def form(self, value: Any) -> Any | None:
        """Return the canonical form of a value; None if the value breaks the rule."""
        raise NotImplementedError

    @property
    def expected(self) -> str:
        """The values that are allowed, in errors."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The values that are allowed, in the docstring of a function."""
        return self.expected

    def fields(self, name: str) -> Fields:
        """Return the run-time fields of a parameter, as for `np.dtype`."""
        raise NotImplementedError

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers of a checked value, one for each of `fields`."""
        return (value,)


@dataclass(frozen=True)
class Number(ParameterRule):
    """A number from `low` to `high`, stored as float64."""

    low: float
    high: float

    def form(self, value: Any) -> float | None:
        """Return the number as a float."""
        return float(value) if is_number(value) and self.low <= value <= self.high else None

    @property
    def expected(self) -> str:
        """The bounds."""
        return f"a number {self.text}"

    @property
    def text(self) -> str:
        """The bounds."""
        return f"from {self.low:g} to {self.high:g}"

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "f8")]


@dataclass(frozen=True)
class Whole(ParameterRule):
    """An integer from `low` to `high`.

    Attributes:
        stored: the dtype of its run-time form.
    """

    low: int
    high: int
    stored: str = "i4"

    def form(self, value: Any) -> int | None:
        """Return the integer."""
        return int(value) if is_integer(value) and self.low <= value <= self.high else None

    @property
    def expected(self) -> str:
        """The bounds."""
        return f"an integer from {self.low} to {self.high}"

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, self.stored)]


@dataclass(frozen=True)
class Flag(ParameterRule):
    """True or False, stored as 1 or 0."""

    expected = "True or False"

    def form(self, value: Any) -> bool | None:
        """Return the flag."""
        return value if isinstance(value, bool) else None

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "u1")]


@dataclass(frozen=True)
class Word(ParameterRule):
    """One of several words, stored as its index."""

    words: tuple[str, ...]

    def form(self, value: Any) -> str | None:
        """Return the word."""
        return value if isinstance(value, str) and value in self.words else None

    @property
    def expected(self) -> str:
        """The words."""
        return f"one of {', '.join(self.words)}"

    @property
    def text(self) -> str:
        """The words."""
        return ", ".join(self.words[:-1]) + f" or {self.words[-1]}"

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "u1")]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the index of the word."""
        return (self.words.index(value),)


@dataclass(frozen=True)
class Ends(ParameterRule):
    """Base of the rules for a range (low, high), stored as `<stem>_low` and `<stem>_high`.

    Attributes:
        stored: the dtype of an end.
    """

    stored: ClassVar[str] = "f8"

    def fields(self, name: str) -> Fields:
        """Return a field for each end."""
        stem = name.removesuffix("_range")
        return [(f"{stem}_low", self.stored), (f"{stem}_high", self.stored)]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return both ends."""
        return tuple(value)


@dataclass(frozen=True)
class Span(Ends):
    """A range (low, high) of numbers, both from `low` to `high`."""

    low: float
    high: float

    def form(self, value: Any) -> Range | None:
        """Return both ends as floats."""
        ends = _numbers_of(value, 2)
        return ends if ends and self.low <= ends[0] <= ends[1] <= self.high else None

    @property
    def expected(self) -> str:
        """The bounds."""
        return f"(low, high) with low <= high, from {self.low:g} to {self.high:g}"

    @property
    def text(self) -> str:
        """The bounds."""
        return f"(low, high) from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Interval(Span):
    """A range (low, high) of numbers above `low`, and at most `high`."""

    def form(self, value: Any) -> Range | None:
        """Return both ends as floats."""
        ends = super().form(value)
        return ends if ends and ends[0] > self.low else None

    @property
    def expected(self) -> str:
        """The bounds."""
        most = f" and at most {self.high:g}" if math.isfinite(self.high) else ""
        return f"(low, high) with low <= high, above {self.low:g}{most}"

    @property
    def text(self) -> str:
        """The bounds."""
        return f"(low, high) above {self.low:g} and at most {self.high:g}"


@dataclass(frozen=True)
class WholeSpan(Span):
    """A range (low, high) of integers, both from `low` to `high` and both inclusive."""

    stored = "i4"
    low: int
    high: int

    def form(self, value: Any) -> WholeRange | None:
        """Return both ends."""
        whole = super().form(value) and all(is_integer(end) for end in value)
        return (int(value[0]), int(value[1])) if whole else None

    @property
    def expected(self) -> str:
        """The bounds."""
        return f"(low, high), integers with {self.low} <= low <= high <= {self.high}"

    @property
    def text(self) -> str:
        """The bounds."""
        return f"integers {super().text}"


@dataclass(frozen=True)
class Spread(Ends):
    """A range (low, high) of numbers from -most to most; a number d is (-d, d)."""

    most: float

    def form(self, value: Any) -> Range | None:
        """Return both ends as floats."""
        if is_number(value):
            return (-float(value), float(value)) if 0 <= value <= self.most else None
        return Span(-self.most, self.most).form(value)

    @property
    def expected(self) -> str:
        """The bounds."""
        most = f"{self.most:g}"
        return f"a number from 0 to {most}, or (low, high) with -{most} <= low <= high <= {most}"

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
    most: int = MAX_SIDE
    sides: str = "height, width"

    def form(self, value: Any) -> tuple[int, int] | None:
        """Return (height, width)."""
        both = tuple(value) if isinstance(value, Sequence) else (value, value)
        good = len(both) == 2 and all(is_integer(s) and self.least <= s <= self.most for s in both)
        return (int(both[0]), int(both[1])) if good else None

    @property
    def expected(self) -> str:
        """The bounds."""
        return f"an integer, or ({self.sides}), from {self.least} to {self.most}"

    def fields(self, name: str) -> Fields:
        """Return a field for each side."""
        names = ("height", "width") if name == "size" else (f"{name}_y", f"{name}_x")
        return [(side, "i4") for side in names]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return both sides."""
        return tuple(value)


@dataclass(frozen=True)
class Levels(ParameterRule):
    """A level for all channels, or one for each; stored for the most channels of an image.

    Integers from 0 to 255 are levels of any image; larger integers are levels of images of uint16,
    negative ones numbers of images of int16, and other floats of images of float32.
    """

    expected = (
        "an integer from 0 to 255 (65535 for images of uint16, -32768 to 32767 for int16), or a "
        "float for images of floats, or one for each channel"
    )
    text = "an integer from 0 to 255 (65535 of uint16, any of int16), a float of floats"

    def form(self, value: Any) -> tuple[float, ...] | None:
        """Return the levels as a tuple, those that are whole and from 0 to 255 as integers."""
        items = tuple(value) if isinstance(value, Sequence) else (value,)
        if not 1 <= len(items) <= MOST_CHANNELS:
            return None
        if not all(is_number(one) and abs(one) <= FLOAT_MAX for one in items):
            return None
        found = tuple(int(one) if one == int(one) and 0 <= one <= 255 else one for one in items)
        good = all(isinstance(one, float) or -32768 <= one <= 65535 for one in found)
        return found if good else None

    def fields(self, name: str) -> Fields:
        """Return one field; float32 holds every level exactly."""
        return [(name, "f4", (MOST_CHANNELS,))]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return a level for each channel."""
        rest = value * MOST_CHANNELS if len(value) == 1 else (0,) * MOST_CHANNELS
        return ((*value, *rest)[:MOST_CHANNELS],)


@dataclass(frozen=True)
class ChannelNumbers(ParameterRule):
    """A number for all channels, or one for each; stored for the most channels of an image."""

    positive: bool = False

    def form(self, value: Any) -> tuple[float, ...] | None:
        """Return the numbers as a tuple of floats."""
        items = tuple(value) if isinstance(value, Sequence) else (value,)
        good = all(is_number(one) and (one > 0 or not self.positive) for one in items)
        return tuple(map(float, items)) if good and 1 <= len(items) <= MOST_CHANNELS else None

    @property
    def expected(self) -> str:
        """The values."""
        what = "positive number" if self.positive else "number"
        return f"a {what}, or one for each of at most {MOST_CHANNELS} channels"

    @property
    def text(self) -> str:
        """The values."""
        return ("above 0, " if self.positive else "") + "one for all channels or one for each"

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "f4", (MOST_CHANNELS,))]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers, repeated up to the most channels of an image."""
        return (np.resize(value, MOST_CHANNELS),)


@dataclass(frozen=True)
class MaskClass(Whole):
    """A number of a class in a mask; stored as an array of one, as kernels take fills."""

    low: int = int(INT32.min)
    high: int = int(INT32.max)
    text = "a number of the mask's dtype"

    def fields(self, name: str) -> Fields:
        """Return one field."""
        return [(name, "i4", (1,))]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the number as a sequence of one."""
        return ((value,),)


@dataclass(frozen=True)
class ClassNumbers(ParameterRule):
    """Numbers of classes, at most `most`, in ascending order; stored as an array and their count.

    Attributes:
        most: maximum count.
    """

    most: int

    def form(self, value: Any) -> tuple[int, ...] | None:
        """Return the numbers, each once."""
        given = tuple(value) if isinstance(value, tuple | list) else (value,)
        good = all(is_integer(one) and INT32.min <= one <= INT32.max for one in given)
        return tuple(sorted(set(given))) if good and len(given) <= self.most else None

    @property
    def expected(self) -> str:
        """The values."""
        return f"a class number (an integer of int32) or at most {self.most} of them"

    @property
    def text(self) -> str:
        """The values."""
        return f"a class number, or at most {self.most} of them"

    def fields(self, name: str) -> Fields:
        """Return the field of the numbers, and that of their count."""
        return [(name, "i4", (self.most,)), (f"{name}_count", "i4")]

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers, filled up with zeros, and their count."""
        return (*value, *[0] * (self.most - len(value))), len(value)


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

    @property
    def text(self) -> str:
        """The values."""
        return self.values

    def check(self, op: str, name: str, value: object) -> Any:
        """Return the canonical form."""
        return self.settle(op, value)

    def fields(self, name: str) -> Fields:
        """Return the fields that the op names."""
        return list(self.stored)

    def store(self, value: Any) -> tuple[Any, ...]:
        """Return the numbers."""
        return self.numbers(value)


Probability = Annotated[float, Number(0.0, 1.0), "the probability"]
"""The parameter `p`."""


def both_sides(size: Sides) -> tuple[int, int]:
    """Return (height, width) of a checked parameter with the rule `SidePair`."""
    return size if isinstance(size, tuple) else (size, size)


def _numbers_of(value: Any, count: int) -> Any | None:
    """Return a sequence of so many finite numbers as a tuple of floats; None for all else."""
    given = tuple(value) if isinstance(value, Sequence) and len(value) == count else ()
    return tuple(map(float, given)) if given and all(map(is_number, given)) else None


def rules_of(cls: type[Any]) -> Mapping[str, ParameterRule]:
    """Return the declared parameters of an op class, by name, in the order of its fields.

    They are found once for each class: to plan a pipeline asks for them hundreds of times.
    """
    known = _RULES.get(cls)
    if known is not None:
        return known
    found = (
        (name, [m for m in meta if isinstance(m, ParameterRule)]) for name, meta in _metadata(cls)
    )
    declared = {name: rules[0] for name, rules in found if rules}
    if "__dataclass_fields__" in vars(cls):  # a class without its decorator has those of its base
        _RULES[cls] = declared
    return declared


_RULES: WeakKeyDictionary[type[Any], Mapping[str, ParameterRule]] = WeakKeyDictionary()


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
