"""CSV files as columns of text, with the line of each row.

UTF-8, a header, commas (tabs in a .tsv), quotes as in RFC 4180. Blank lines, blanks around names,
separators at the ends of lines, and an unnamed first column of row numbers, which pandas writes,
are left out. The values are kept in memory: about 100 bytes each.
"""

import codecs
import csv
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TextIO

from stoker.dataset.limits import MAX_LINE
from stoker.dataset.sources.common.walk import SUFFIXES
from stoker.dataset.sources.formats.read_table import Table
from stoker.dataset.sources.formats.text_columns import shown
from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import EncodingError, without_mark

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_SEPARATORS = ";\t,|"
_MARK_BYTES = 4
_BLOCK_BYTES = 2**20
_UNCLOSED = "unexpected end of data"
"""The message of the csv module about a quote without an end."""


def read_csv(path: Path) -> Table:
    """Read a CSV or TSV file.

    Raises:
        OSError: it cannot be read.
        UsageError: it has another form, or an invalid header.
    """
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    _check_mark(path)
    with open(path, encoding="utf-8-sig", newline="") as file, _long_fields():
        rows = _rows(path, file, separator)
        names = [name.strip() for name in next(rows, (1, []))[1]]
        while len(names) > 1 and not names[-1]:
            del names[-1]
        first = next(rows, (1, []))
        _check_separator(path, names, first[1], separator)
        table = Table("line", _header(path, names))
        longer: list[int] = []
        for place, values in itertools.chain([first] if first[1] else [], rows):
            if len(values) > len(names) and not any(map(str.strip, values[len(names) :])):
                del values[len(names) :]
                longer.append(place)
            if len(values) == len(names):
                table.places.append(place)
                table.rows.append(values)
            else:
                reason = f"expected {len(names)} values, as in the header, got {len(values)}"
                table.bad.append((place, reason))
    if table.bad and not table.rows:
        raise UsageError(
            f"{path}: its first line has {len(names)} values, but no other line has as many "
            f"(line {table.bad[0][0]}: {table.bad[0][1]}); expected the names of the columns in "
            "the first line, such as image,label"
        )
    if longer:
        table.remarks.append(
            f"{path.name}: {len(longer)} lines end in separators without a value, such as line "
            f"{longer[0]}; these separators are left out"
        )
    if "" in table.columns:
        _leave_out_index(path, table)
    return table


def _check_mark(path: Path) -> None:
    with open(path, "rb") as file:
        try:
            without_mark(file.read(_MARK_BYTES))
        except EncodingError as error:
            raise UsageError(f"{path}: {error}") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let fields be as long as a row; `_Lines` refuses longer rows.

    The limit of the csv module, 128 KiB unless a script sets it, counts for the whole process.
    """
    before = csv.field_size_limit(MAX_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _rows(path: Path, file: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the last line and the values of each row that is not blank.

    A row of blanks is a value if the header has one column.

    Raises:
        UsageError: a row is not CSV in UTF-8.
    """
    source = _Lines(path, file)
    lines = csv.reader(source, delimiter=separator, strict=True)
    begin, columns = 1, 0
    try:
        for values in lines:
            begin, source.row = lines.line_num + 1, 0
            if values and (columns == 1 or len(values) > 1 or not values[0].isspace()):
                columns = columns or len(values)
                yield lines.line_num, values
    except csv.Error as error:
        if str(error) == _UNCLOSED:
            raise UsageError(
                f"{path}: the row that begins in line {begin} has a quote that is not closed; "
                "close it, or double it if it belongs to the value"
            ) from None
        raise UsageError(f"{path}, line {lines.line_num}: {error}") from None
    except UnicodeDecodeError:
        raise UsageError(_not_utf8(path)) from None


class _Lines:
    """The lines of a file, none of which is read beyond `MAX_LINE`.

    Attributes:
        row: characters since the last row ended; a row may have several lines.
    """

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file, self._number = path, file, 0
        self.row = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        """Return the next line.

        Raises:
            UsageError: its row is too long, or has a NUL byte.
        """
        line = self._file.readline(MAX_LINE + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self.row += len(line)
        if "\0" in line:
            raise UsageError(
                f"{self._path}, line {self._number}: expected text in UTF-8, got a NUL byte, which "
                "UTF-16 and files of spreadsheets have; save it as CSV in UTF-8"
            )
        if self.row > MAX_LINE:
            raise UsageError(
                f"{self._path}, line {self._number}: its row has more than {MAX_LINE} characters; "
                "check the ends of lines and the quotes, and store large values in files that the "
                "table names"
            )
        return line


def _not_utf8(path: Path) -> str:
    """Return the message about the first byte of a file that is not UTF-8."""
    line, decoder = 1, codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                line += error.object.count(b"\n", 0, error.start)
                return (
                    f"{path}, line {line}: expected UTF-8, got the byte "
                    f"0x{error.object[error.start]:02x}; save it as UTF-8, as in `iconv -f "
                    f"WINDOWS-1252 -t UTF-8 {path.name}`"
                )
            line += block.count(b"\n")
    return f"{path}, line {line}: expected UTF-8, but its last character is cut; save it again"


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


def _check_separator(path: Path, names: list[str], first: list[str], separator: str) -> None:
    """Refuse a file whose header and first row have columns with another separator.

    Raises:
        UsageError: they have.
    """
    header, row = separator.join(names), separator.join(first)
    for mark in _SEPARATORS.replace(separator, ""):
        count = header.count(mark)
        alike = row.count(mark) >= count if len(names) == 1 else row.count(mark) == count
        if count >= max(len(names), 1) and alike and (len(names) == 1 or separator not in row):
            raise UsageError(
                f"{path}: expected columns separated by {separator!r}, got {shown(header)}; write "
                f"it with {separator!r}, or with tabs in a .tsv, and with decimal points in numbers"
            )


def _header(path: Path, names: list[str]) -> dict[str, str]:
    if not any(names) or not all(names[1:]):
        raise UsageError(f"{path}: expected a header with a name per column, got {shown(names)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{path}: two columns are named {twice!r}; rename one")
    if quoted := next((name for name in names if name[0:1] == '"'), None):
        raise UsageError(
            f"{path}: a blank is before the quote of the column {quoted}; remove the blank"
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
