"""Find the addresses of samples that are stored as they are used, with one shape.

Compiled code reads such samples in place, by address, so everything that it relies on is checked
here: each file once, when it is first needed, row by row. A row with damaged offsets or sizes has
no address; reading it on its own raises the error. After `MAX_HELD` files all maps are released;
addresses found earlier stay valid. Belongs to one thread.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.dataset.format.fields import Field
from stoker.dataset.reading.columns import ColumnFiles, Columns, FixedColumn, VariableColumn
from stoker.protocol.item_fields import COORDINATES

MAX_HELD: Final = 256


def is_uniform(field: Field) -> bool:
    """Return whether a field is stored in the form in which it is used, with one shape."""
    return (
        None not in field.shape
        and field.encoding == "raw"
        and not field.referenced
        and field.kind not in ("bytes", *COORDINATES)
    )


@dataclass(frozen=True)
class Located:
    """The addresses of samples.

    Attributes:
        addresses: (fields, n) int64.
        columns: dtype and shape of the samples of each field.
        held: an object that keeps the memory mapped.
    """

    addresses: np.ndarray
    columns: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
    held: object


class UniformFields:
    """Finds samples of fields that are all `is_uniform`."""

    def __init__(
        self, files: ColumnFiles, first_rows: Sequence[int], fields: Sequence[Field]
    ) -> None:
        """Prepare; maps no file yet.

        Args:
            files: the files of the dataset.
            first_rows: the first row of each file.
            fields: the fields to find.
        """
        self._files = files
        self._fields = fields
        self._columns = [
            (np.dtype(f.dtype), tuple(side for side in f.shape if side is not None)) for f in fields
        ]
        steps = [dtype.itemsize * math.prod(shape) for dtype, shape in self._columns]
        self._steps = np.array(steps, np.int64)[:, None]
        self._first_rows = np.array(first_rows, np.int64)
        self._bad = np.zeros(0, np.int64)
        self._let_go()

    def locate(self, ids: np.ndarray) -> Located | None:
        """Return the addresses of samples; None if one is damaged.

        Args:
            ids: (n,) int64, each at least 0 and less than the number of samples.

        Raises:
            ClosedError: the dataset was closed.
            DatasetError: a file cannot be mapped.
        """
        files = np.searchsorted(self._first_rows, ids, side="right") - 1
        known = self._known[files]
        if not known.all():
            if self._known.sum() >= MAX_HELD:
                self._let_go()
                known[:] = False
            for index in np.unique(files[~known]).tolist():
                self._add(index)
        if self._bad.size and np.isin(ids, self._bad).any():
            return None
        addresses = self._origins[:, files] + self._steps * ids
        return Located(addresses, self._columns, self._held)

    def _let_go(self) -> None:
        count = len(self._first_rows)
        self._held: list[np.ndarray] = []
        self._known = np.zeros(count, bool)
        self._origins = np.zeros(
            (len(self._fields), count), np.int64
        )  # the address of sample 0, as if it were in this file

    def _add(self, index: int) -> None:
        """Map a file and check all its rows."""
        first = int(self._first_rows[index])
        row = self._files.row(first)
        good = np.ones(row.file.rows, bool)
        for place, field in enumerate(self._fields):
            shape, size_bytes = self._columns[place][1], int(self._steps[place, 0])
            memory = _checked(field, row.columns, shape, size_bytes, good)
            self._origins[place, index] = memory.ctypes.data - size_bytes * first
            self._held.append(memory)
        self._known[index] = True
        if not good.all():
            self._bad = np.union1d(self._bad, first + np.flatnonzero(~good))


def _checked(
    field: Field, columns: Columns, shape: tuple[int, ...], size_bytes: int, good: np.ndarray
) -> np.ndarray:
    """Return the memory of a file's column; clear `good` for rows that are not as expected."""
    column = columns[field.name]
    if isinstance(column, FixedColumn):
        if field.dtype == "bool":
            good &= (column.items.reshape(len(good), -1) <= 1).all(1)
        return column.items
    assert isinstance(column, VariableColumn), "is_uniform excludes references"
    size = size_bytes // column.step
    firsts = size * np.arange(len(good))
    good &= (column.offsets[:-1] == firsts) & (column.offsets[1:] == firsts + size)
    good &= size_bytes * np.arange(1, len(good) + 1) <= len(column.data)
    for side, expected in zip(("height", "width"), shape, strict=False):
        sides = columns[f"{field.name}.{side}"]
        assert isinstance(sides, FixedColumn)
        good &= sides.items == expected
    return np.frombuffer(column.data, np.uint8)
