"""JSON lines as columns of values: an object in each line, all with the same keys.

A column has one type: whole numbers, floats (also those among which some are whole), true or false,
text, or arrays of numbers of one length. The values are kept in memory.
"""

from pathlib import Path
from typing import Any

import msgspec

from stoker.dataset.limits import MAX_LINE
from stoker.dataset.sources.common.field_notation import TEXT
from stoker.dataset.sources.formats.read_table import Table
from stoker.protocol.errors import UsageError

JSON_LINES = ".jsonl"
_NAMES = {bool: "true or false", int: "a whole number", float: "a float", str: "text",
          dict: "an object", type(None): "null", list: "an array"}  # fmt: skip
_KINDS = {bool: "bool", int: "int64", float: "float64", str: TEXT}


def read_json_lines(path: Path) -> Table:
    """Read a file of JSON lines.

    Raises:
        UsageError: it cannot be read, a line is no object or has other keys, or the values of a
            column differ in type.
    """
    table = Table("line", {})
    types: list[tuple[type, int]] = []
    try:
        with open(path, "rb") as file:
            place = 0
            while line := file.readline(MAX_LINE + 1):
                place += 1
                if not line.strip():
                    continue
                found = _object(path, place, line)
                if not table.rows:
                    table.columns = dict.fromkeys(found, "")
                    types = [_type(path, place, *one) for one in found.items()]
                if found.keys() != table.columns.keys():
                    raise UsageError(
                        f"{path}, line {place}: expected the keys {', '.join(table.columns)}, got "
                        f"{', '.join(found)}"
                    )
                row = [found[name] for name in table.columns]
                for index, (name, value) in enumerate(zip(table.columns, row, strict=True)):
                    types[index] = _joined(path, table, place, name, value, types[index])
                table.places.append(place)
                table.rows.append(row)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    if not table.rows:
        raise UsageError(f"{path} has no lines")
    table.columns = {n: _kind(one) for n, one in zip(table.columns, types, strict=True)}
    return table


def _object(path: Path, place: int, line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise UsageError(f"{path}, line {place}: expected at most {MAX_LINE} bytes in a line")
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}, line {place}: expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}, line {place}: expected a JSON object, got {_NAMES[type(found)]}")
    return found


def _type(path: Path, place: int, name: str, value: Any) -> tuple[type, int]:
    """Return the type of a value, or of the numbers of an array and their count (-1: no array)."""
    kind = type(value)
    if kind in _KINDS:
        return kind, -1
    if kind is list:
        inner = {type(one) for one in value}
        if inner and inner <= {int, float}:
            return (float if float in inner else int), len(value)
        raise UsageError(
            f"{path}, line {place}: {name!r} is an array of values that are not numbers"
        )
    raise UsageError(
        f"{path}, line {place}: {name!r} is {_NAMES[kind]}; expected a number, true or false, text "
        "or an array of numbers"
        + ("; leave out the lines of samples that have none" if value is None else "")
    )


def _joined(
    path: Path, table: Table, place: int, name: str, value: Any, before: tuple[type, int]
) -> tuple[type, int]:
    """Return the type of a column with one more value."""
    found = _type(path, place, name, value)
    if found == before:
        return before
    if found[1] == before[1] and {found[0], before[0]} == {int, float}:
        return float, before[1]
    first = table.places[0] if table.places else place
    raise UsageError(
        f"{path}, line {place}: {name!r} is {_shown(found)}, but {_shown(before)} in line {first}; "
        "write one type in all lines"
    )


def _shown(kind: tuple[type, int]) -> str:
    return _NAMES[kind[0]] if kind[1] < 0 else f"an array of {kind[1]}"


def _kind(found: tuple[type, int]) -> str:
    kind = _KINDS[found[0]]
    return kind if found[1] < 0 else f"{kind}[{found[1]}]"
