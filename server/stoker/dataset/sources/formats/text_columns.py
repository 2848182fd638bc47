"""Columns of text: numbers, truth values, classes or text, and warnings about them.

A CSV has no types, and people write the same thing in several ways. Values are never joined or
changed silently: two spellings of one label are refused, and warnings give the line of an
example.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stoker.dataset.sources.common.field_notation import TEXT
from stoker.dataset.sources.common.lookalikes import remarks_on_lookalikes
from stoker.protocol.errors import UsageError

BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")
_WHOLE = re.compile(r"([+-]?[0-9]{1,19})(\.0*)?")
_NUMBER = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
_SEPARATED = re.compile(r"[+-]?[0-9]{1,3}([,.' \u00a0\u202f_]?[0-9]{3})*([.,][0-9]+)?")
"""Numbers with separators of thousands, or with a decimal comma."""
_PADDED = re.compile(r"[+-]?0[0-9]+")
_MISSING = frozenset(["nan", "na", "n/a", "#n/a", "none", "null", "<na>"])
_LEAST, _MOST = -(2**63), 2**63 - 1
_SHOWN = 80


@dataclass(frozen=True)
class TextColumn:
    """The values of a column that are not empty, and their places.

    Attributes:
        name: of the column.
        unit: of the places, "line" or "row".
        places: the line or row of each value, from 1.
        values: the texts.
    """

    name: str
    unit: str
    places: Sequence[int]
    values: Sequence[str]

    def first(self, odd: Callable[[str], bool]) -> str:
        """Name the first value for which `odd` holds, with its line; "" if it never holds."""
        for place, value in zip(self.places, self.values, strict=True):
            if odd(value):
                return f"{shown(value)} in {self.unit} {place}"
        return ""


def shown(value: object) -> str:
    """Return a value for a message: bytes and long text are cut."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def kind_of(values: Sequence[str]) -> str:
    """Return the KIND of values that say no more than what they are."""
    stripped = [value.strip() for value in values]
    if all(map(_INTEGER.fullmatch, stripped)):
        return "int64" if all(_LEAST <= int(text) <= _MOST for text in stripped) else TEXT
    if all(map(_NUMBER.fullmatch, stripped)):
        return "float64"
    return "bool" if all(text.lower() in BOOLEANS for text in stripped) else TEXT


def whole(value: object) -> int | None:
    """Return a whole number of 64 bits, also one like 10.0; None if it is not one."""
    found = _WHOLE.fullmatch(str(value).strip())
    return int(found[1]) if found is not None and _LEAST <= int(found[1]) <= _MOST else None


def is_regression(column: TextColumn) -> bool:
    """Return whether labels are numbers with fractions, so targets of a regression.

    Raises:
        UsageError: they are numbers, of which some are written in another way than labels.
    """
    if not all(_NUMBER.fullmatch(value.strip()) for value in column.values):
        return False
    odd = column.first(lambda value: whole(value) is None)
    if not odd:
        return False
    if any(float(value) % 1 != 0 for value in column.values if _is_finite(value)):
        return True
    if large := column.first(
        lambda value: bool(_INTEGER.fullmatch(value.strip()) and whole(value) is None)
    ):
        raise UsageError(
            f"column {column.name!r}: expected labels as whole numbers of 64 bits or names, got "
            f"{large}; pass --field {column.name}=text to keep the texts"
        )
    raise UsageError(
        f"column {column.name!r}: expected labels as whole numbers or names, got {odd}; write it "
        f"as a whole number, leave the cell empty and declare a fill (--field "
        f"{column.name}=label,fill=-1), or pass --field {column.name}=float64 for a regression"
    )


def _is_finite(value: str) -> bool:
    return abs(float(value)) < float("inf")


def check_spellings(column: TextColumn) -> None:
    """Refuse labels that are whole numbers of which one is written in two ways.

    `10` and `10.0` are one label, because pandas writes them.

    Raises:
        UsageError: two texts stand for one number.
    """
    first: dict[int, tuple[str, int]] = {}
    for place, value in zip(column.places, column.values, strict=True):
        number, text = whole(value), value.strip().partition(".")[0]
        if number is None:
            continue
        earlier, line = first.setdefault(number, (text, place))
        if earlier != text:
            raise UsageError(
                f"column {column.name!r}: {shown(earlier)} in {column.unit} {line} and "
                f"{shown(text)} in {column.unit} {place} are two texts of one label; write them "
                "alike, or, if they are two classes, list the classes with --classes FILE"
            )


def remarks_on_numbers(column: TextColumn, label: bool) -> Iterator[str]:
    """Yield a line about whole numbers that are written with zeros before them."""
    if padded := column.first(lambda value: _PADDED.fullmatch(value.strip()) is not None):
        keep = "list the classes with --classes FILE" if label else f"--field {column.name}=text"
        yield (
            f"column {column.name!r} is packed as numbers, without the zeros before {padded}; to "
            f"keep the texts: {keep}"
        )


def remarks_on_float_labels(column: TextColumn, kind: str) -> Iterator[str]:
    """Yield a line about labels that are floats by their type, but whole."""
    numbers = [float(value) for value in column.values]
    if numbers and all(number % 1 == 0 or math.isnan(number) for number in numbers):
        yield (
            f"column {column.name!r} is packed as {kind}, though its numbers are whole, as pandas "
            f"writes labels of which some are missing; for labels pass --field {column.name}=label"
        )


def is_mostly_numbers(values: Sequence[str]) -> bool:
    """Return whether half or more of some texts look like numbers."""
    return 0 < 2 * sum(map(_is_number, values)) >= len(values)


def _is_number(text: str) -> bool:
    """Return whether a text looks like a number, also with separators."""
    text = text.strip()
    return bool(_NUMBER.fullmatch(text) or _SEPARATED.fullmatch(text))


def _is_finite_number(text: str) -> bool:
    """Return whether a text looks like a number, and not like a word for a missing one."""
    return _is_number(text) and any(map(str.isdigit, text))


def remarks_on_text(column: TextColumn, label: bool) -> Iterator[str]:
    """Yield a line about text of which a part, or names of classes most of which, are numbers."""
    fits = whole if label else _fitting
    odd = column.first(lambda value: fits(value) is None)
    if not odd:
        return
    if is_mostly_numbers(column.values):
        yield (
            f"column {column.name!r} is packed as classes, in the order of their text, because "
            f"{odd} is not a whole number"
            if label
            else f"column {column.name!r} is packed as text, because {odd} is not a number that "
            f"fits; write numbers as in 1234.5, or pass --field {column.name}=text"
        )
    elif not label and (numbers := sum(map(_is_finite_number, column.values))):
        yield (
            f"column {column.name!r} is packed as text, though {numbers} of its "
            f"{len(column.values)} values are numbers, because {odd} is not one; for numbers pass "
            f"--field {column.name}=float64, and correct the values that are none; if it is text, "
            f"--field {column.name}=text says so"
        )


def remarks_on_classes(column: TextColumn, classes: Sequence[str]) -> Iterator[str]:
    """Yield lines about names of classes that look alike, or like a missing value."""
    yield from remarks_on_text(column, label=True)
    yield from remarks_on_lookalikes(classes)
    counts = Counter(text for text in map(str.strip, column.values) if text.lower() in _MISSING)
    for text, count in sorted(counts.items()):
        yield (
            f"{count} samples have the label {text!r}, which is a class like any other; if it says "
            f"that the label is missing, leave the cell empty and pass --field "
            f"{column.name}=label,fill=-1"
        )


def _fitting(value: str) -> float | None:
    text = value.strip()
    if _INTEGER.fullmatch(text):
        return int(text) if _LEAST <= int(text) <= _MOST else None
    return float(text) if _NUMBER.fullmatch(text) else None


def number(dtype: str, text: str) -> float | int | bool:
    """Parse a number of a CSV.

    Raises:
        ValueError, KeyError: the text is not such a number.
    """
    text = text.strip()
    if dtype == "bool":
        return {**BOOLEANS, "1": True, "0": False}[text.lower()]
    if not (_INTEGER if "int" in dtype else _NUMBER).fullmatch(text):
        raise ValueError(text)
    if "int" not in dtype:
        value = float(text)
        if not _is_finite(text) and text[-1].isdigit():
            raise ValueError(text)
        return value
    if not _LEAST <= int(text) < 2**64:
        raise ValueError(text)
    return int(text)
