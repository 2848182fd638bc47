"""A table as it was read: columns, and rows of values with their lines."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """Rows of a file.

    Attributes:
        unit: the unit of `places`: "line" or "row".
        columns: name -> KIND by its type (`declare`); "" for a CSV, where all values are text.
        places: the line or row number of each row, from 1.
        rows: the values, one per column.
        bad: (place, reason) of rows with too few or too many values.
        remarks: what the owner should know, one line each.
    """

    unit: str
    columns: dict[str, str]
    places: list[int] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
