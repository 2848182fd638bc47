"""CSV and Parquet files as columns of values, with the line or row number of each value.

CSV: text, see `csv_rows`. Parquet: typed values, read in batches. Both are kept in memory as a
whole: about 100 bytes per value.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from stoker.dataset.limits import CodecError, check_unpacked
from stoker.dataset.sources.common.field_notation import TEXT
from stoker.dataset.sources.formats.arrow_files import PLAIN_PARQUET, check_memory, rows_at_once
from stoker.dataset.sources.formats.arrow_types import (
    dtype_of,
    is_bytes,
    is_text,
    sides_of,
    without_dictionary,
)
from stoker.dataset.sources.formats.csv_rows import read_csv
from stoker.dataset.sources.formats.read_table import Table
from stoker.protocol.errors import UsageError

CSV = frozenset([".csv", ".tsv"])
PARQUET = frozenset([".parquet", ".pq"])
MAX_BYTES = 4 * 2**30
_BATCH_ROWS = 4096


def read_table(path: Path) -> Table:
    """Read a CSV or Parquet file.

    Raises:
        UsageError: it cannot be read, has another form, or an invalid header.
    """
    suffix = path.suffix.lower()
    if suffix not in CSV | PARQUET:
        raise UsageError(
            f"{path}: expected a table with the suffix {', '.join(sorted(CSV | PARQUET))}; rename "
            "it, or save it as one of these"
        )
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES} bytes; split it")
        table = read_csv(path) if suffix in CSV else _read_parquet(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    if not table.rows and not table.bad:
        raise UsageError(f"{path} has a header, but no rows")
    return table


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa  # noqa: PLC0415 - a third of a second, for Parquet alone
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with open(path, "rb") as raw, pq.ParquetFile(path) as file:
            stored_bytes, decoded_bytes = path.stat().st_size, 0
            check_memory(stored_bytes, file.metadata)
            schema = file.schema_arrow
            table = Table("row", {one.name.strip(): _kind(one) for one in schema})
            if len(table.columns) < len(schema):
                raise UsageError(f"{path}: two columns have the same name; rename one")
            for decoded in _batches(raw, file):
                batch, known = _without_dictionaries(decoded, pa)
                decoded_bytes += batch.nbytes + sum(column.nbytes for column in known.values())
                check_unpacked(decoded_bytes, stored_bytes, PLAIN_PARQUET)
                table.rows += map(list, zip(*_values(batch, known), strict=True))
    except CodecError as error:
        raise UsageError(f"{path}: {error}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system, not about the file's content
        raise UsageError(f"{path} is not a Parquet file, or is damaged: {error}") from None
    table.places = list(range(1, len(table.rows) + 1))
    return table


def _batches(raw: BinaryIO, file: Any) -> Iterator[Any]:
    for number in range(file.metadata.num_row_groups):
        rows = rows_at_once(raw, file.metadata.row_group(number), _BATCH_ROWS)
        yield from file.iter_batches(rows, row_groups=[number])


def _without_dictionaries(batch: Any, pa: Any) -> tuple[Any, dict[int, Any]]:
    """Return a batch with places instead of values of dictionaries, and by column the values used.

    A dictionary is the same in all batches, and may be far larger than what one of them needs.
    """
    columns, known = list(batch.columns), {}
    for number, column in enumerate(columns):
        if pa.types.is_dictionary(column.type):
            used = column.indices.unique().drop_null()
            places = {index: place for place, index in enumerate(used.to_pylist())}
            columns[number] = pa.array(map(places.get, column.indices.to_pylist()), pa.int64())
            known[number] = column.dictionary.take(used)
    return pa.record_batch(columns, batch.schema.names), known


def _values(batch: Any, known: dict[int, Any]) -> Iterator[list[Any]]:
    """Yield the values of each column; those of a dictionary are made once, not for each row."""
    for number, column in enumerate(batch.columns):
        values = column.to_pylist()
        if number in known:
            texts = known[number].to_pylist()
            values = [None if place is None else texts[place] for place in values]
        yield values


def _kind(column: Any) -> str:
    sides, found = sides_of(column.type)
    found = without_dictionary(found)
    if not sides and is_text(found):
        return TEXT
    if not sides and is_bytes(found):
        return "bytes"
    dtype = dtype_of(found)
    if not dtype:
        return f"unknown: {column.type}"
    shape = ",".join("?" if side is None else str(side) for side in sides)
    return f"{dtype}[{shape}]" if sides else dtype
