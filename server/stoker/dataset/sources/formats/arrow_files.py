"""Arrow and Parquet files as rows by number, in bounded memory.

An Arrow file (IPC, in stream or file form) is mapped: only the pages in use are read. For a Parquet
file a few rows are decoded at a time, and reading forward is cheap. Every batch is validated before
a value of it is used, so that a damaged file gives an error and not a crash. pyarrow is imported
when a file is opened: while packing and indexing, never in the workers of a daemon.

Sources: https://arrow.apache.org/docs/format/Columnar.html, https://parquet.apache.org/docs/, and
for the headers of pages its parquet.thrift with the compact protocol of Apache Thrift.
"""

import bisect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from stoker.dataset.limits import MAX_PLAIN_BYTES, ROW_BYTES, CodecError, check_unpacked
from stoker.dataset.sources.common.arrow_claims import unpacked_bytes
from stoker.protocol.datasets import PARQUET

_FILE_MAGIC = b"ARROW1"
_ROWS_AT_ONCE = 32
_PLAIN = "IpcWriteOptions(compression=None) of pyarrow"
PLAIN_PARQUET = "use_dictionary=False, compression=None in pyarrow"
"""Arguments that write Parquet files of about the size of their values."""
_HEADER_BYTES = 32
_DICTIONARY_PAGE = re.compile(rb"\x15\x04" + 2 * rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])")
"""The start of a dictionary page: its type, and its unpacked and stored sizes as varints."""


class TableFile(Protocol):
    """A file of rows.

    Attributes:
        schema: its pyarrow schema.
        rows: number of readable rows.
        broken: why it could not be read to its end; empty if it could.
    """

    schema: Any
    rows: int
    broken: str

    def row(self, number: int) -> tuple[Any, int]:
        """Return the pyarrow RecordBatch that holds a row, and the row's number in it."""
        ...

    def row_sizes(self) -> np.ndarray:
        """Return the approximate size of each row in bytes, (rows,) int64."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_table(path: str | Path, name: str) -> TableFile:
    """Open a file at a path; `name`, its original name, decides the format.

    Raises:
        CodecError: it does not have that format.
        OSError: it cannot be read.
    """
    return ParquetTable(path) if name.endswith(PARQUET) else ArrowTable(path)


class ArrowTable:
    """An Arrow IPC file; see `TableFile`."""

    def __init__(self, path: str | Path) -> None:
        """Map it and find its batches."""
        import pyarrow as pa  # noqa: PLC0415 - see the module

        self.broken = ""
        self._file = pa.memory_map(str(path))
        whole = self._file.read_buffer()
        self._start = whole.address
        self._end = whole.address + whole.size
        self._file.seek(0)
        self._batches: list[Any] = []
        try:
            check_unpacked(unpacked_bytes(memoryview(whole)), whole.size, _PLAIN)
        except CodecError:
            self.close()
            raise
        try:
            reader = self._reader(pa, whole)
            self.schema = _checked(reader.schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            self.close()
            raise CodecError(f"expected an Arrow IPC file: {error}") from None
        try:
            for batch in self._read(reader):
                batch.validate(full=True)
                self._batches.append(batch)
        except (pa.ArrowException, OSError) as error:
            self.broken = f"its record batch {len(self._batches)} cannot be read: {error}"
        self._first_rows = [0]
        for batch in self._batches:
            self._first_rows.append(self._first_rows[-1] + batch.num_rows)
        self.rows = self._first_rows[-1]
        try:
            check_unpacked(ROW_BYTES * self.rows, whole.size, _PLAIN)
        except CodecError:
            self.close()
            raise

    def row(self, number: int) -> tuple[Any, int]:
        """Return the batch that holds a row, and the row's number in it."""
        index = bisect.bisect_right(self._first_rows, number) - 1
        return self._batches[index], number - self._first_rows[index]

    def row_sizes(self) -> np.ndarray:
        """Return the approximate size of each row in bytes, (rows,) int64: its batch's share."""
        shares = [batch.nbytes // max(batch.num_rows, 1) for batch in self._batches]
        return np.repeat(np.array(shares, np.int64), np.diff(self._first_rows))

    def data(self, start: int, size_bytes: int) -> bytes:
        """Return bytes of the file."""
        self._file.seek(start)
        return bytes(self._file.read(size_bytes))

    def extent(self, buffer: Any) -> tuple[int, int]:
        """Return the offset of a buffer in the file, and its length, in bytes.

        Raises:
            CodecError: it is a copy, because the data is compressed.
        """
        if not buffer.size:
            return 0, 0
        if not self._start <= buffer.address <= self._end - buffer.size:
            raise CodecError("it is compressed, so it cannot be read in place; pack the source")
        return int(buffer.address) - self._start, int(buffer.size)

    def close(self) -> None:
        """Close the map."""
        self._batches.clear()
        self._file.close()

    def _reader(self, pa: Any, whole: Any) -> Any:
        if whole.size >= len(_FILE_MAGIC) and whole[: len(_FILE_MAGIC)].to_pybytes() == _FILE_MAGIC:
            return pa.ipc.open_file(self._file)
        return pa.ipc.open_stream(self._file)

    @staticmethod
    def _read(reader: Any) -> Iterator[Any]:
        count = getattr(reader, "num_record_batches", None)
        if count is None:
            yield from reader
        else:
            yield from (reader.get_batch(number) for number in range(count))


def check_memory(stored_bytes: int, described: Any) -> None:
    """Check, before a value is read, that values do not take far more memory than their file.

    Args:
        stored_bytes: size of the Parquet file.
        described: its metadata, by pyarrow.

    Raises:
        CodecError: they do.
    """
    groups = [described.row_group(number) for number in range(described.num_row_groups)]
    rows = max(described.num_rows, sum(group.num_rows for group in groups))
    claimed = sum(max(group.total_byte_size, _column_bytes(group)) for group in groups)
    check_unpacked(max(claimed, ROW_BYTES * rows), stored_bytes, PLAIN_PARQUET)


def _column_bytes(group: Any) -> int:
    columns = (group.column(number) for number in range(group.num_columns))
    return int(sum(column.total_uncompressed_size for column in columns))


def rows_at_once(file: BinaryIO, group: Any, most: int) -> int:
    """Return how many rows of a row group to decode at a time: at least 1, at most `most`.

    Values of a dictionary are stored once, however many rows have them, and decoded for each. No
    value is larger than the dictionary.

    Args:
        file: the file.
        group: its metadata, by pyarrow.
        most: the limit for values of the usual size.

    Raises:
        OSError: the file cannot be read.
    """
    columns = (group.column(number) for number in range(group.num_columns))
    largest = max(
        (_dictionary_bytes(file, one) for one in columns if one.has_dictionary_page), default=0
    )
    return min(max(MAX_PLAIN_BYTES // max(largest, 1), 1), most)


def _dictionary_bytes(file: BinaryIO, column: Any) -> int:
    """Return the unpacked size of a column's dictionary; if it is not known, of the column."""
    file.seek(max(column.dictionary_page_offset, 0))
    header = _DICTIONARY_PAGE.match(file.read(_HEADER_BYTES))
    if header is None:
        return int(column.total_uncompressed_size)
    return max(map(_i32, header.groups()))


def _i32(varint: bytes) -> int:
    """Return a number that is 0 or more, from its zigzag varint."""
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(varint)) >> 1


class ParquetTable:
    """A Parquet file; see `TableFile`."""

    def __init__(self, path: str | Path) -> None:
        """Read its footer."""
        import pyarrow as pa  # noqa: PLC0415 - see the module
        import pyarrow.parquet as pq  # noqa: PLC0415

        self.broken = ""
        self._errors = (pa.ArrowException, OSError)
        try:
            self._file = pq.ParquetFile(str(path))
        except (*self._errors, ValueError) as error:  # a name that is not UTF-8 is a ValueError
            raise CodecError(f"expected a Parquet file: {error}") from None
        try:
            self.schema = _checked(self._file.schema_arrow)
        except (*self._errors, ValueError) as error:
            self._file.close()
            raise CodecError(f"its schema cannot be read: {error}") from None
        metadata = self._file.metadata
        try:
            check_memory(Path(path).stat().st_size, metadata)
        except CodecError:
            self._file.close()
            raise
        self.rows = int(metadata.num_rows)
        self._sizes: list[int] = []
        self._first_rows = [0]
        self._at_once: list[int] = []
        with open(path, "rb") as file:
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                self._first_rows.append(self._first_rows[-1] + group.num_rows)
                self._sizes.append(group.total_byte_size // max(group.num_rows, 1))
                self._at_once.append(rows_at_once(file, group, _ROWS_AT_ONCE))
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = None
        self._span = range(0)
        self._group = -1

    def row(self, number: int) -> tuple[Any, int]:
        """Return the batch that holds a row, and the row's number in it.

        Raises:
            CodecError: it cannot be decoded.
        """
        if number not in self._span:
            self._seek(number)
        return self._batch, number - self._span.start

    def row_sizes(self) -> np.ndarray:
        """Return the approximate decoded size of each row in bytes, (rows,) int64."""
        return np.repeat(np.array(self._sizes, np.int64), np.diff(self._first_rows))

    def close(self) -> None:
        """Close the file."""
        self._batches, self._batch = iter(()), None
        self._file.close()

    def _seek(self, number: int) -> None:
        group = bisect.bisect_right(self._first_rows, number) - 1
        try:
            if group != self._group or number < self._span.start:
                self._batches = self._file.iter_batches(self._at_once[group], row_groups=[group])
                self._group = group
                self._span = range(self._first_rows[group], self._first_rows[group])
            while number not in self._span:
                self._batch = next(self._batches)
                self._batch.validate(full=True)
                self._span = range(self._span.stop, self._span.stop + self._batch.num_rows)
        except (*self._errors, StopIteration) as error:
            self._group, self._span = -1, range(0)
            raise CodecError(f"its row group {group} cannot be decoded: {error}") from None


def _checked(schema: Any) -> Any:
    """Return a schema after checking that all its names are readable, at any depth.

    Raises:
        ValueError: a name is not UTF-8.
    """
    pending = list(schema)
    while pending:
        field = pending.pop()
        str(field.name)
        pending += [field.type.field(number) for number in range(field.type.num_fields)]
    return schema
