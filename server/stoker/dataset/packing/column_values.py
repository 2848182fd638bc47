"""The values of a new column, by row: from a table or an .npy file.

A table (CSV, TSV, Parquet or JSON lines) has a column of the new field's name, and either a column
`source` with the names of samples, as `stoker ls` shows them, or a column `row` with their ids. An
.npy file has a value for each row, in order. Every row needs exactly one value, unless the field is
optional: then rows may have none. Images and masks are files that a table names, or whole files in
Parquet, or arrays.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.cells import Value
from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import Field, Schema
from stoker.dataset.format.source_item import Given, WholeFile
from stoker.dataset.limits import CodecError
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.dataset.sources.common.field_notation import IGNORE, TEXT, declare
from stoker.dataset.sources.common.npy import HEADER_BYTES, read_header
from stoker.dataset.sources.common.readers import read_file
from stoker.dataset.sources.common.scan import Request
from stoker.dataset.sources.formats.json_lines import JSON_LINES, read_json_lines
from stoker.dataset.sources.formats.read_table import Table
from stoker.dataset.sources.formats.table import scan_columns
from stoker.dataset.sources.formats.table_rows import CSV, PARQUET, read_table
from stoker.dataset.sources.formats.text_columns import is_mostly_numbers
from stoker.protocol.errors import UsageError

BY_NAME, BY_ROW = "source", "row"
EXAMPLES = 3


@dataclass(frozen=True)
class ColumnValues:
    """The values of a new field.

    Attributes:
        field: the field, as declared.
        values: the value of each row, or the file that has it; None if it is absent.
        root: the folder that files are relative to.
        remarks: what the owner should know about how the values were read.
    """

    field: Field
    values: "Sequence[Value | WholeFile | None] | np.ndarray"
    root: Path
    remarks: Sequence[str] = ()

    def read(self, number: int) -> Value | None:
        """Return the value of a row.

        Raises:
            CodecError: its file cannot be read, or changed since the table was read.
        """
        value = self.values[number]
        return read_file(self.root, value.file) if isinstance(value, WholeFile) else value


def check_column(name: str, path: Path, kind: str) -> None:
    """Refuse a name, a file by its ending, or a KIND that no dataset can have; reads nothing.

    Raises:
        UsageError: one of them cannot be.
    """
    if path.suffix.lower() not in CSV | PARQUET | {JSON_LINES, ".npy"}:
        raise UsageError(
            f"{path}: expected a .csv, .tsv, .parquet, .jsonl or .npy file; rename it, or save it "
            "as one of these"
        )
    check_schema(Schema((declare(name, kind or "int64", f"--kind {kind}"),)))


def read_values(
    dataset: Dataset, name: str, path: Path, kind: str, images: Path | None
) -> ColumnValues:
    """Read the values of a new field.

    Args:
        dataset: the dataset that gets them.
        name: name of the field, and of the table's column.
        path: a .csv, .tsv, .parquet, .jsonl or .npy file.
        kind: KIND of the field; "" chooses it as `stoker pack` does.
        images: folder that paths in a table are relative to; None: that of the table.

    Raises:
        UsageError: the file cannot be read, a value does not fit, or rows have no value or several.
    """
    if path.suffix.lower() == ".npy":
        return _from_array(dataset, name, path, kind)
    try:
        return _from_table(dataset, name, path, kind, images)
    except UsageError as error:  # the scan of tables knows the options of `stoker pack`
        raise UsageError(_with_own_option(error.message, name)) from None


def _with_own_option(text: str, name: str) -> str:
    return text.replace(f"--field {name}=", "--kind ")


def _from_array(dataset: Dataset, name: str, path: Path, kind: str) -> ColumnValues:
    try:
        with open(path, "rb") as file:
            header = read_header(file.read(HEADER_BYTES))
        if path.stat().st_size != header.offset + header.size_bytes:
            raise UsageError(f"{path} does not have the size that its header says; save it again")
    except CodecError as error:
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    if not header.shape or header.shape[0] != len(dataset):
        raise UsageError(
            f"{path} has the shape {header.shape}, but {dataset.path} has {len(dataset)} samples: "
            "expected a value for each, in order of their ids"
        )
    if 0 in header.shape:
        raise UsageError(
            f"{path} has the shape {header.shape}: expected at least one number for each sample"
        )
    sides = ",".join(map(str, header.shape[1:]))
    whole = kind or (f"{header.dtype.name}[{sides}]" if sides else header.dtype.name)
    field = declare(name, whole, f"--kind {whole}")
    if field.kind == "image" and field.encoding == "encoded":
        field = _raw_image(field, header.dtype, header.shape[1:])
    flat = np.memmap(path, header.dtype, "r", header.offset)
    order: Literal["F", "C"] = "F" if header.fortran_order else "C"
    values = flat[: math.prod(header.shape)].reshape(header.shape, order=order)
    gray = field.kind == "image" and values.ndim == 3
    return ColumnValues(field, values[..., None] if gray else values, path.parent)


def _raw_image(field: Field, dtype: np.dtype, shape: Sequence[int]) -> Field:
    """Return the field of images that are arrays; their pixels are stored raw, as in packing."""
    channels = shape[2] if len(shape) == 3 else 1
    made = schema.image(field.name, "raw", dtype=dtype.name, channels=channels)
    return msgspec.structs.replace(made, relative=field.relative)


def _from_table(
    dataset: Dataset, name: str, path: Path, kind: str, images: Path | None
) -> ColumnValues:
    table = read_json_lines(path) if path.suffix.lower() == JSON_LINES else read_table(path)
    keys = [key for key in (BY_NAME, BY_ROW) if key in table.columns]
    if len(keys) != 1 or name not in table.columns or name in keys:
        raise UsageError(
            f"{path}: expected the columns {name!r} and {BY_NAME!r} (names of samples, as `stoker "
            f"ls` shows them) or {BY_ROW!r} (their ids), got {', '.join(table.columns)}"
        )
    key = keys[0]
    wanted = {name: kind, key: TEXT if key == BY_NAME else "int64"}
    kinds = {column: wanted.get(column, IGNORE) for column in table.columns}
    scan = scan_columns(
        path, table, Request(fields={c: k for c, k in kinds.items() if k}, images=images)
    )
    remarks = [line for line in scan.remarks if repr(key) not in line]
    places = [column for column in table.columns if column in wanted]
    field = _named(scan.fields[places.index(name)], name)
    if not kind and field.kind == "bytes" and remarks and _mostly_numbers(table, name):
        raise UsageError(f"add-column: {path} has values of several types: {remarks[0]}")
    if scan.bad:
        listed = "; ".join(f"{place}: {reason}" for place, reason in scan.bad[:EXAMPLES])
        raise UsageError(f"add-column: {_count(scan.bad, 'row')} cannot be used: {listed}")
    pairs = [tuple(_given(place) for place in item.places) for item in scan.items]
    rows = [pair[places.index(key)] for pair in pairs]
    values = [pair[places.index(name)] for pair in pairs]
    if key == BY_NAME:
        rows = [text.decode() for text in rows]
    by_row = _matched(dataset, rows, values, key, bool(field.optional))
    remarks += _remarks_on_absent(field, by_row)
    _check_files(by_row)
    return ColumnValues(
        field, by_row, scan.root, [_with_own_option(line, name) for line in remarks]
    )


def _named(field: Field, name: str) -> Field:
    """Return a field of another name; a column `mask_path` would give a field `mask`."""
    side = tuple(
        msgspec.structs.replace(one, name=f"{name}{one.name.removeprefix(field.name)}")
        for one in field.side
    )
    return msgspec.structs.replace(field, name=name, side=side)


def _check_files(values: Sequence[Value | WholeFile | None]) -> None:
    """Refuse files that are missing before all stored bytes are read."""
    absent = [
        value.file.path
        for value in values
        if isinstance(value, WholeFile) and not (value.file.size_bytes or value.file.mtime_ns)
    ]
    if absent:
        raise UsageError(
            f"add-column: {_count(absent, 'file')} of the column cannot be read: "
            f"{_examples(absent)}; paths are relative to the table, or to --images"
        )


def _mostly_numbers(table: Table, name: str) -> bool:
    """Return whether half or more of a column's cells are numbers, so that text is a mistake."""
    place = list(table.columns).index(name)
    texts = [str(row[place]) for row in table.rows if row[place] is not None]
    return is_mostly_numbers(texts)


def _remarks_on_absent(field: Field, values: Sequence[Value | WholeFile | None]) -> list[str]:
    absent = sum(value is None for value in values)
    if not absent:
        return []
    return [f"{absent} of {len(values)} samples have no {field.name}: {field.present_name} says it"]


def _given(place: object) -> Any:
    assert isinstance(place, Given | WholeFile)
    return place.value if isinstance(place, Given) else place


def _matched(
    dataset: Dataset,
    keys: Sequence[Any],
    values: Sequence[Value | WholeFile | None],
    key: str,
    optional: bool,
) -> list[Value | WholeFile | None]:
    """Return the values in the order of the dataset's rows; None for those that are absent."""
    there = _rows_by_key(dataset, key)
    by_key: Mapping[Any, Value | WholeFile | None] = dict(zip(keys, values, strict=True))
    twice = [one for one, count in Counter(keys).items() if count > 1]
    unknown = [one for one in by_key if one not in there]
    missing = [] if optional else [one for one in there if one not in by_key]
    faults = [
        f"{_count(found, key)} {what}: {_examples(found)}"
        for found, what in (
            (twice, "in it more than once"),
            (unknown, "not in the dataset"),
            (missing, "of the dataset without a value"),
        )
        if found
    ]
    if faults:
        raise UsageError(
            f"add-column: expected one value for each of the {len(there)} samples of "
            f"{dataset.path}, got {'; '.join(faults)}"
        )
    return [by_key.get(one) for one in there]


def _rows_by_key(dataset: Dataset, key: str) -> dict[Any, int]:
    """Return name or id -> id, in the order of ids."""
    if key == BY_ROW:
        return {number: number for number in range(len(dataset))}
    if dataset.source(0) is None:
        raise UsageError(
            f"add-column: the samples of {dataset.path} have no names; give their ids, in a column "
            f"{BY_ROW!r}"
        )
    names = [dataset.source(number) or "" for number in range(len(dataset))]
    found = {name: number for number, name in enumerate(names)}
    if len(found) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise UsageError(
            f"add-column: {_count(twice, 'name')} of {dataset.path} belong to several samples: "
            f"{_examples(twice)}; give ids, in a column {BY_ROW!r}"
        )
    return found


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


def _examples(found: Iterable[object]) -> str:
    listed = list(found)
    shown = ", ".join(map(repr, listed[:EXAMPLES]))
    return shown + (", ..." if len(listed) > EXAMPLES else "")
