"""Hugging Face datasets: folders of Arrow or Parquet files, with features in their metadata.

Columns become fields. An `Image` feature, or a struct of `bytes` and `path`, is an image, or a mask
if a word in its name suggests it. A `ClassLabel`, or an integer column named `label`, is the label,
with the class names. Numbers are scalars, lists of numbers and `Array2D` to `Array5D` are arrays,
strings and binary are bytes. `--field COLUMN=KIND` overrides that (`sources.declare`),
`COLUMN=ignore` leaves a column out.

A folder from `save_to_disk` lists its files in `state.json`; in any other folder all files are
used, by path, except those named `cache-*` (left behind by `map`). The order is that of the rows.

Source: https://huggingface.co/docs/datasets/about_arrow; features are in the schema's metadata
under the key `huggingface`, as `{"info": {"features": ...}}`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.source_item import Container, ContainerRow, Item, SourceFile
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.field_notation import IGNORE, declare, field_name
from stoker.dataset.sources.common.file_patterns import check_splits, find_files
from stoker.dataset.sources.common.lazy_items import LazyItems
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.formats.arrow_files import TableFile, open_table
from stoker.dataset.sources.formats.arrow_types import (
    dtype_of,
    is_bytes,
    is_integer,
    is_picture,
    sides_of,
)
from stoker.protocol.datasets import ARROW, PARQUET, STATE
from stoker.protocol.errors import UsageError

METADATA = b"huggingface"
MAX_JSON_BYTES = 2**20
_MASKS = re.compile(r"(^|_)(masks?|segmentations?|annotations?|gt)($|_)", re.IGNORECASE)
_PACKED = re.compile(r"[0-9]{5,}-[0-9a-f]{8}\.arrow")
_ORDER = {"image": 0, "mask": 1, "label": 2}


def is_huggingface(source: Path) -> bool:
    """Return whether this looks like Hugging Face's Arrow or Parquet files."""
    if source.is_dir():
        if (source / STATE).is_file():
            return True
        return any(True for suffix in (ARROW, PARQUET) for _ in _below(source, suffix))
    if source.name.endswith(ARROW):
        return True
    return source.name.endswith(PARQUET) and _has_pictures(source)


def scan_huggingface(source: Path, request: Request) -> SourceScan:
    """Scan Arrow or Parquet files.

    Args:
        source: a folder of files, one file, or a pattern.
        request: its fields are column -> kind.

    Raises:
        UsageError: there is no file or no row, files differ in their columns, or a column has an
            unsupported type.
    """
    root, files = huggingface_files(source)
    if not request.asked:
        check_splits(str(source), files)
    bad: list[tuple[str, str]] = []
    counts: list[np.ndarray] = []
    columns: Any = None
    for file in files:
        try:
            table = open_table(root / file.path, file.path)
        except (CodecError, OSError) as error:
            bad.append((file.path, str(error)))
            counts.append(np.zeros(0, np.int64))
            continue
        try:
            if table.broken:
                bad.append((file.path, f"{table.broken}; everything after it is lost"))
            columns = _same(columns, table, files[0], file)
            counts.append(table.row_sizes())
        finally:
            table.close()
    if columns is None:
        raise UsageError(
            f"{source}: none of its files can be read:\n"
            + "\n".join(f"  {name}: {why}" for name, why in bad)
        )
    fields = fields_of(columns, request.fields, str(source))
    items = TableItems([file.path for file in files], counts)
    if not items:
        raise UsageError(f"{source} has no rows; check the path")
    containers = [Container(file) for file in files]
    plain = all(file.path.endswith(ARROW) for file in files)
    return SourceScan(
        "huggingface", root, fields, items, containers, "rows", in_place=plain, bad=bad
    )


class TableItems(LazyItems):
    """The rows of all files."""

    def __init__(self, names: Sequence[str], sizes: Sequence[np.ndarray]) -> None:
        """Take the files' names and, for each, the sizes of its rows in bytes."""
        super().__init__([len(part) for part in sizes])
        self._names, self._sizes = names, sizes

    def make(self, container: int, number: int) -> Item:
        """Return an item."""
        name, size_bytes = self._names[container], int(self._sizes[container][number])
        return Item(f"{name}/{number}", size_bytes, (ContainerRow(container, number),))


def fields_of(columns: Any, kinds: Mapping[str, str], source: str) -> tuple[schema.Field, ...]:
    """Return the fields of a pyarrow schema: images, masks, the label, then all others.

    Raises:
        UsageError: a column has an unsupported type, or two give one field.
    """
    for name in kinds.keys() - set(columns.names):
        raise UsageError(
            f"--field {name}={kinds[name]}: {source} has no such column, only "
            f"{', '.join(columns.names)}"
        )
    features = _features(columns)
    fields: dict[str, schema.Field] = {}
    for column in columns:
        said = kinds.get(column.name, "")
        if said == IGNORE:
            continue
        of = f"column {column.name!r}"
        field = (
            declare(field_name(column.name), said, of)
            if said
            else _field(column, features.get(column.name, {}))
        )
        if field is None or not _fits(column.type, field):
            raise UsageError(
                f"{source}: column {column.name!r} of type {column.type} cannot be "
                f"{said or 'stored in a dataset'}; leave it out with "
                f"--field '{column.name}={IGNORE}'"
            )
        if field.name in fields:
            raise UsageError(
                f"{source}: two columns give the field {field.name!r}; leave one out with "
                f"--field '{column.name}={IGNORE}'"
            )
        fields[field.name] = field
    if not fields:
        raise UsageError(f"{source}: every column is left out; keep at least one")
    return tuple(sorted(fields.values(), key=lambda field: _ORDER.get(field.kind, len(_ORDER))))


def _features(columns: Any) -> dict[str, dict[str, Any]]:
    """Return the features in the schema's metadata, by column."""
    text = (columns.metadata or {}).get(METADATA, b"")
    if not text or len(text) > MAX_JSON_BYTES:
        return {}
    try:
        features = json.loads(text)["info"]["features"]
        return {name: part for name, part in features.items() if isinstance(part, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _field(column: Any, feature: Mapping[str, Any]) -> schema.Field | None:
    """Return the field of a column by its type and feature; None if it cannot be one."""
    name, kind = field_name(column.name), column.type
    if feature.get("_type") == "Image" or is_picture(kind):
        return schema.mask(name) if _MASKS.search(column.name) else schema.image(name)
    if is_bytes(kind):
        return schema.blob(name)
    if sides_of(kind)[0]:
        return _array(name, kind, feature)
    if feature.get("_type") == "ClassLabel" or (name == "label" and is_integer(kind)):
        names = feature.get("names")
        return schema.label(name, tuple(map(str, names)) if isinstance(names, list) else None)
    dtype = dtype_of(kind)
    return schema.scalar(name, dtype) if dtype else None


def _fits(kind: Any, field: schema.Field) -> bool:
    """Return whether values of a pyarrow type fit a field."""
    if field.is_picture:
        return is_picture(kind) or is_bytes(kind)
    if field.kind == "bytes":
        return is_bytes(kind)
    return bool(sides_of(kind)[0] if field.kind == "array" else dtype_of(kind))


def _array(name: str, kind: Any, feature: Mapping[str, Any]) -> schema.Field | None:
    """Return an array field; the sides of nested lists come from the feature."""
    sides, element = sides_of(kind)
    said = feature.get("shape")
    if isinstance(said, list) and len(said) == len(sides):
        sides = [side if type(side) is int and side > 0 else None for side in said]
    dtype = dtype_of(element)
    if not dtype or None in sides[1:]:
        return None
    return schema.array(name, dtype, tuple(sides))


def huggingface_files(source: Path) -> tuple[Path, list[SourceFile]]:
    """Return the files of a source: those in a folder's `state.json`, or all."""
    names = _saved_names(source) if (source / STATE).is_file() else None
    if names is not None:
        found = [find_files(str(source / name), ())[1][0] for name in names]
        return source, found
    root, files = find_files(str(source), (ARROW, PARQUET))
    files = [file for file in files if not Path(file.path).name.startswith("cache-")]
    suffixes = {Path(file.path).suffix for file in files}
    if len(suffixes) > 1:
        raise UsageError(
            f"{source} has Arrow and Parquet files, which may be the same rows twice; use only "
            f"one format, as in '{source}/**/*{PARQUET}'"
        )
    if not files:
        raise UsageError(f"{source} has no data, only files named cache-*; check the path")
    return root, files


def _saved_names(folder: Path) -> list[str]:
    """Return the names of the files from `save_to_disk`, in order."""
    try:
        with open(folder / STATE, "rb") as file:
            state = json.loads(file.read(MAX_JSON_BYTES))
        names = [part["filename"] for part in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{folder / STATE} does not list the files of a dataset ({error!r}); name the files "
            f"themselves, as in '{folder}/*{ARROW}'"
        ) from None
    plain = [name for name in names if isinstance(name, str) and name == Path(name).name]
    if not plain or len(plain) != len(names):
        raise UsageError(f"{folder / STATE} lists no files of this folder; name the files yourself")
    return plain


def _same(columns: Any, table: TableFile, first: SourceFile, file: SourceFile) -> Any:
    """Return the columns of all files.

    Raises:
        UsageError: this one has different ones.
    """
    if columns is not None and not columns.equals(table.schema, check_metadata=False):
        raise UsageError(
            f"{file.path} has other columns than {first.path}: "
            f"{', '.join(f'{part.name} {part.type}' for part in table.schema)}; expected "
            f"{', '.join(f'{part.name} {part.type}' for part in columns)}"
        )
    return table.schema if columns is None else columns


def _below(folder: Path, suffix: str) -> Iterator[Path]:
    """Yield files of that suffix in a folder and its sub-folders, except packed files."""
    for pattern in (f"*{suffix}", f"*/*{suffix}"):
        yield from (path for path in folder.glob(pattern) if not _PACKED.fullmatch(path.name))


def _has_pictures(path: Path) -> bool:
    """Return whether a Parquet file has Hugging Face's metadata, or contains images."""
    try:
        table = open_table(path, path.name)
    except (CodecError, OSError):
        return False
    found = METADATA in (table.schema.metadata or {})
    found = found or any(is_picture(column.type) for column in table.schema)
    table.close()
    return found
