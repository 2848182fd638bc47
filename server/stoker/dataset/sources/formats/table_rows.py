"""CSV and Parquet files as columns of values, with the line or row number of each value.

CSV: UTF-8, a header, commas (tabs in a .tsv), quotes as in RFC 4180; every value is text. Blanks
around names are left out, and so is an unnamed first column of row numbers, which pandas writes.
Parquet: typed values, read in batches. Both are kept in memory as a whole: about 100 bytes per
value.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.declare import TEXT
from stoker.dataset.sources.common.walk import SUFFIXES
from stoker.dataset.sources.formats.arrow_files import check_memory
from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import EncodingError, without_mark

CSV = frozenset([".csv", ".tsv"])
PARQUET = frozenset([".parquet", ".pq"])
MAX_BYTES = 4 * 2**30
_BATCH_ROWS = 4096
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_MARK_BYTES = 4


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


def read_table(path: Path) -> Table:
    """Read a CSV or Parquet file.

    Raises:
        UsageError: it cannot be read, has another form, or an invalid header.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES} bytes; split it")
        table = _read_csv(path) if path.suffix.lower() in CSV else _read_parquet(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    if not table.rows and not table.bad:
        raise UsageError(f"{path} has a header, but no rows")
    return table


def _read_csv(path: Path) -> Table:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with open(path, "rb") as file:
        try:
            without_mark(file.read(_MARK_BYTES))
        except EncodingError as error:
            raise UsageError(f"{path}: {error}") from None
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=separator, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            table = Table("line", _header(path, header, separator))
            for values in lines:
                if len(values) == len(header):
                    table.places.append(lines.line_num)
                    table.rows.append(values)
                elif values:
                    reason = f"expected {len(header)} values, as in the header, got {len(values)}"
                    table.bad.append((lines.line_num, reason))
        except csv.Error as error:
            raise UsageError(f"{path}, line {lines.line_num}: {error}") from None
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{path}: expected UTF-8, got the byte 0x{error.object[error.start]:02x} near line "
                f"{lines.line_num + 1}; convert it"
            ) from None
    if "" in table.columns:
        _leave_out_index(path, table)
    return table


def _leave_out_index(path: Path, table: Table) -> None:
    """Leave out an unnamed first column of row numbers.

    Raises:
        UsageError: the column holds something else.
    """
    if [row[0] for row in table.rows] != [str(number) for number in range(len(table.rows))]:
        raise UsageError(
            f"{path}: its first column has no name, and holds no row numbers from 0; name it, or "
            "write the file without it (to_csv(..., index=False) in pandas)"
        )
    del table.columns[""]
    for row in table.rows:
        del row[0]
    table.remarks.append(
        f"{path.name}: the unnamed first column of row numbers is left out (pandas writes its "
        "index; to_csv(..., index=False) does not)"
    )


def _header(path: Path, names: list[str], separator: str) -> dict[str, str]:
    if not any(names) or not all(names[1:]):
        raise UsageError(f"{path}: expected a header with a name per column, got {names}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{path}: two columns are named {twice!r}; rename one")
    other = next((mark for mark in ";\t," if mark != separator and mark in names[0]), None)
    if len(names) == 1 and other is not None:
        raise UsageError(
            f"{path}: expected columns separated by {separator!r}, got {names[0]!r}; write it with "
            f"{separator!r}, or with tabs in a .tsv"
        )
    _check_is_header(path, names)
    return dict.fromkeys(names, "")


def _check_is_header(path: Path, names: list[str]) -> None:
    """Refuse a first line that holds a sample."""
    files = [name for name in names if PurePath(name).suffix.lower() in SUFFIXES]
    numbers = all(_NUMBER.fullmatch(name) for name in names if name)
    counted = names == [str(number) for number in range(len(names))]  # by pandas
    if files or (numbers and not counted):
        shown = files[0] if files else names[0]
        raise UsageError(
            f"{path}: expected a header with the names of the columns, but the first line holds a "
            f"sample ({shown!r}); add a first line such as image,label"
        )


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa  # noqa: PLC0415 - a third of a second, for Parquet alone
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            check_memory(path.stat().st_size, file.metadata)
            schema = file.schema_arrow
            table = Table("row", {one.name: _kind(path, one, pa) for one in schema})
            if len(table.columns) < len(schema):
                raise UsageError(f"{path}: two columns have the same name; rename one")
            for batch in file.iter_batches(_BATCH_ROWS):
                values = (column.to_pylist() for column in batch.columns)
                table.rows += map(list, zip(*values, strict=True))
    except CodecError as error:
        raise UsageError(f"{path}: {error}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system, not about the file's content
        raise UsageError(f"{path} is not a Parquet file, or is damaged: {error}") from None
    table.places = list(range(1, len(table.rows) + 1))
    return table


def _kind(path: Path, column: Any, pa: Any) -> str:
    sides, found = list(_sides(column.type, pa)), column.type
    for _ in sides:
        found = found.value_type
    if pa.types.is_dictionary(found):
        found = found.value_type
    if not sides and (pa.types.is_string(found) or pa.types.is_large_string(found)):
        return TEXT
    if not sides and (pa.types.is_binary(found) or pa.types.is_large_binary(found)):
        return "bytes"
    if pa.types.is_boolean(found) or pa.types.is_integer(found) or pa.types.is_floating(found):
        dtype = {"halffloat": "float16", "float": "float32", "double": "float64"}
        name = dtype.get(str(found), str(found))
        return f"{name}[{','.join(sides)}]" if sides else name
    return f"unknown: {column.type}"


def _sides(kind: Any, pa: Any) -> Iterator[str]:
    """Yield the sides of nested lists: a number if fixed, otherwise a question mark."""
    while True:
        if pa.types.is_fixed_size_list(kind):
            yield str(kind.list_size)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield "?"
        else:
            return
        kind = kind.value_type
