"""CSV and Parquet files with a row per sample: paths of images, labels, numbers, text.

The kind of a column is that of `--field COLUMN=KIND`. Without it, a column whose name suggests an
image, a mask or a label, and whose values fit, becomes that; other columns get their type in
Parquet. A column of a CSV is int64, float64 or bool if all its values are, otherwise text. Paths
are relative to the file, or to `--images`. The order of rows is that of the file. Labels that are
text become classes in alphabetical order; whole numbers that pandas wrote as floats (`10.0`) are
labels, other floats are targets of a regression. A column of whole image files, in Parquet, becomes
images. Blanks around values count in text alone.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import msgspec

from stoker.dataset.format.fields import Field
from stoker.dataset.format.optional_fields import how_to_declare
from stoker.dataset.format.source_item import Given, Item, ValueSource, WholeFile
from stoker.dataset.images.codecs import signature
from stoker.dataset.images.transcode import FORMATS
from stoker.dataset.sources.common.class_order import order_classes
from stoker.dataset.sources.common.field_notation import (
    IGNORE,
    TEXT,
    declare,
    field_name,
    plain_kind,
)
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import SUFFIXES, is_folder, look_at
from stoker.dataset.sources.formats.read_table import Table
from stoker.dataset.sources.formats.table_rows import CSV, PARQUET, read_table
from stoker.dataset.sources.formats.text_columns import (
    TextColumn,
    check_spellings,
    is_regression,
    kind_of,
    number,
    remarks_on_classes,
    remarks_on_float_labels,
    remarks_on_numbers,
    remarks_on_text,
    shown,
    whole,
)
from stoker.protocol.errors import UsageError
from stoker.protocol.files.absent import why_absent

_KNOWN = {
    **dict.fromkeys(("image", "img", "picture", "path", "file", "filename", "filepath"), "image"),
    **dict.fromkeys(("mask", "segmentation"), "mask"),
    **dict.fromkeys(("label", "class", "target", "category"), "label"),
}
_TAIL = re.compile(r"_?(path|file|filename|name|id)$")
_OF_PANDAS = re.compile(r"__index_level_[0-9]+__")
_VALUE_BYTES = 8
_FLOATS = frozenset(["float16", "float32", "float64"])
_BASE64 = re.compile(r"(/9j/|iVBORw0KGgo|R0lGOD|UklGR|Qk)[A-Za-z0-9+/\r\n]{32,}={0,2}")
"""Text of a JPEG, PNG, GIF, WebP or BMP in base64."""


def is_table(source: Path) -> bool:
    """Return whether this is a CSV or Parquet file, by its suffix."""
    return source.is_file() and source.suffix.lower() in CSV | PARQUET


def scan_table(source: Path, request: Request) -> SourceScan:
    """Scan a CSV or Parquet file with a row per sample.

    Args:
        source: the file.
        request: its fields are column -> KIND, see `stoker.dataset.sources.common.field_notation`.

    Raises:
        UsageError: it cannot be read, or its columns cannot become fields.
    """
    return scan_columns(source, read_table(source), request)


def scan_columns(source: Path, table: Table, request: Request) -> SourceScan:
    """Scan the columns of a table that was read from `source`; see `scan_table`."""
    for name in request.fields.keys() - table.columns.keys():
        raise UsageError(f"--field {name}=...: {source} has no such column; it has "
                         f"{', '.join(table.columns)}")  # fmt: skip
    root = request.images or source.parent
    if not is_folder(root):
        raise UsageError(f"--images: there is no folder {root}{why_absent(str(root))}")
    columns = _columns(table, request, root)
    scan = SourceScan(
        "table", root, tuple(column.field for column in columns), [], aligned=False,
        bad=[(f"{source.name}:{place}", reason) for place, reason in table.bad],
        remarks=table.remarks,
    )  # fmt: skip
    scan.items = _items(source.name, table, columns, scan)
    return scan


@dataclass(frozen=True)
class _TableColumn:
    """A column that becomes a field: its index in a row, and a function from value to place."""

    index: int
    name: str
    kind: str
    field: Field
    place_of: Callable[[Any], ValueSource]

    @property
    def optional(self) -> bool:
        return bool(self.field.optional)


def _items(name: str, table: Table, columns: list[_TableColumn], scan: SourceScan) -> list[Item]:
    items = []
    for place, row in zip(table.places, table.rows, strict=True):
        try:
            places = tuple(_place(column, row[column.index]) for column in columns)
        except ValueError as error:
            scan.bad.append((f"{name}:{place}", str(error)))
            continue
        files = [place.file for place in places if isinstance(place, WholeFile)]
        size_bytes = sum(file.size_bytes for file in files) + _VALUE_BYTES * len(places)
        items.append(Item(files[0].path if files else f"{name}:{place}", size_bytes, places))
    return items


def _place(column: _TableColumn, value: Any) -> ValueSource:
    empty = value is None or (
        value == "" and column.optional if column.field.kind == "bytes" else _is_blank(value)
    )
    if empty and column.optional:
        return Given(None)
    if empty:
        raise ValueError(
            f"column {column.name!r} is empty; if samples may lack it, declare a fill: "
            f"{how_to_declare(column.name, column.kind)}"
        )
    if column.kind != TEXT and _is_misquoted(value):
        raise ValueError(
            f"column {column.name!r}: a blank is before the quote of {shown(value)}; remove the "
            "blank"
        )
    try:
        return column.place_of(value)
    except (ValueError, KeyError):
        what = "true or false" if column.field.dtype == "bool" else column.field.dtype
        raise ValueError(f"column {column.name!r}: expected {what}, got {shown(value)}") from None


def _columns(table: Table, request: Request, root: Path) -> list[_TableColumn]:
    columns: dict[str, _TableColumn] = {}
    for index, (name, typed) in enumerate(table.columns.items()):
        if name not in request.fields and _OF_PANDAS.fullmatch(name):
            table.remarks.append(
                f"column {name!r}, the index of pandas, is left out; to_parquet(index=False) does "
                f"not write it, and --field {name}=KIND packs it"
            )
            continue
        column = _text_column(table, name, index)
        kind = request.fields.get(name) or _guess(column, typed)
        if kind == IGNORE:
            continue
        if kind.startswith("unknown"):
            raise UsageError(
                f"column {name!r} has type {kind.split(' ', 1)[1]}, which cannot be a field; "
                f"leave it out with --field {name}={IGNORE}"
            )
        if name not in request.fields and "?" in kind.partition(",")[2]:
            raise UsageError(
                f"column {name!r} holds lists of lists, whose inner length its type does not say; "
                f"declare it, as in --field {name}={kind.partition('[')[0]}[?,4], or leave the "
                f"column out with --field {name}={IGNORE}"
            )
        known, plain = _KNOWN.get(_stem(name)), plain_kind(kind)
        field = declare(
            known if plain == known else field_name(name), kind, f"--field {name}={kind}"
        )
        if field.name in columns:
            raise UsageError(
                f"columns {columns[field.name].name!r} and {name!r} both give the field "
                f"{field.name!r}; rename one, or leave it out with --field {name}={IGNORE}"
            )
        if field.kind == "label":
            field, place_of = _labels(field, column, typed, request, table)
        else:
            if name not in request.fields:
                table.remarks += _remarks(column, kind, typed)
            place_of = _converter(field, plain, typed, root)
        columns[field.name] = _TableColumn(index, name, plain, field, place_of)
    if not columns:
        raise UsageError("no column is left as a field; ignore fewer of them")
    table.remarks += _remarks_on_names(table, request, columns)
    return list(columns.values())


def _text_column(table: Table, name: str, index: int) -> TextColumn:
    """Return the values of a column that are not blank, nor text with a quote after a blank."""
    kept = [
        number
        for number, row in enumerate(table.rows)
        if row[index] is not None and not _is_blank(row[index]) and not _is_misquoted(row[index])
    ]
    places = [table.places[number] for number in kept]
    return TextColumn(name, table.unit, places, [table.rows[number][index] for number in kept])


def _is_blank(value: Any) -> bool:
    """Return whether a value is text without any but blanks, which is a value for text alone."""
    return isinstance(value, str) and not value.strip()


def _is_misquoted(value: Any) -> bool:
    """Return whether CSV took a quote for a part of a value, because a blank is before it."""
    return isinstance(value, str) and value[:1].isspace() and value.lstrip()[:1] == '"'


def _remarks(column: TextColumn, kind: str, typed: str) -> Iterator[str]:
    """Yield lines about a column whose kind was not declared."""
    if typed in _FLOATS and _KNOWN.get(_stem(column.name)) == "label":
        yield from remarks_on_float_labels(column, kind)
    if typed:
        return
    if kind == "int64":
        yield from remarks_on_numbers(column, label=False)
    elif kind == TEXT:
        yield from remarks_on_text(column, label=False)


def _remarks_on_names(
    table: Table, request: Request, columns: dict[str, _TableColumn]
) -> Iterator[str]:
    """Yield lines about columns whose names, but not their values, suggest images or masks."""
    there = {column.field.kind for column in columns.values()}
    for column in columns.values():
        known = _KNOWN.get(_stem(column.name))
        numbered = column.name.lower().endswith("id") and column.kind != TEXT
        if numbered or column.name in request.fields:
            continue
        if known in ("image", "mask") and known not in there:
            first = next((row[column.index] for row in table.rows if row[column.index]), None)
            yield (
                f"column {column.name!r} is packed as {column.kind}, because no value ends like "
                f"the name of an image file; the first is {shown(first)}; --field "
                f"{column.name}={known} reads the files that it names"
            )


def _stem(name: str) -> str:
    stem = name.lower()
    return _TAIL.sub("", stem) or stem


def _guess(column: TextColumn, typed: str) -> str:
    """Return the KIND of a column without a declared one."""
    name, values = column.name, column.values
    known = _KNOWN.get(_stem(name))
    texts = typed in ("", TEXT)
    if known in ("image", "mask"):
        if any(map(_is_place, values)):
            return known
        if texts and values:
            _check_is_no_picture(name, values[0])
    elif known == "label" and (texts or ("int" in typed and "[" not in typed)):
        return "float64" if texts and is_regression(column) else known
    return typed or kind_of(values)


def _is_place(value: object) -> bool:
    """Return whether a value is the path of an image, or the bytes of its file."""
    if isinstance(value, str):
        return PurePath(value.strip()).suffix.lower() in SUFFIXES
    head = value[:16] if isinstance(value, bytes) else b""
    return signature(head) is not None or head.startswith(FORMATS)


def _check_is_no_picture(name: str, value: str) -> None:
    """Refuse image files that were written as text.

    Raises:
        UsageError: they were.
    """
    how = "in base64" if _BASE64.match(value) else "as Python shows bytes"
    if _BASE64.match(value) or value[:2] in ("b'", 'b"'):
        raise UsageError(
            f"column {name!r}: expected paths of images, got image files {how}; write the files "
            "and their paths, or the bytes to Parquet, as in df.to_parquet"
        )


def _converter(field: Field, kind: str, typed: str, root: Path) -> Callable[[Any], ValueSource]:
    """Return a function from a value to a place."""
    if field.is_picture and typed == "bytes":
        return Given
    if field.is_picture:
        return lambda value: _file_at(root, str(value))
    if kind == TEXT:
        return lambda value: Given(str(value).encode())
    if typed:
        return Given
    if field.shape:
        raise UsageError(f"expected a kind without a shape for a CSV, got {field.name}={kind}")
    return lambda value: Given(number(field.dtype, value))


def _labels(
    field: Field, column: TextColumn, typed: str, request: Request, table: Table
) -> tuple[Field, Callable[[Any], ValueSource]]:
    """Return a label field, with classes if it has any, and a function from value to place."""
    if "[" in typed:
        raise UsageError(
            f"column {column.name!r}: expected a label per row, got lists ({typed}); pack them as "
            f"arrays, as in --field {column.name}={typed}"
        )
    given, texts = request.classes, typed in ("", TEXT)
    if not given and (typed in _FLOATS or all(whole(value) is not None for value in column.values)):
        if texts:
            check_spellings(column)
            table.remarks += remarks_on_numbers(column, label=True)
        return field, lambda value: Given(_whole_of(value))
    classes = order_classes((str(value).strip() for value in column.values), given)
    if texts and not given:
        table.remarks += remarks_on_classes(column, classes)
    numbers = {name: number for number, name in enumerate(classes)}
    return (
        msgspec.structs.replace(field, classes=classes),
        lambda value: Given(numbers[str(value).strip()]),
    )


def _whole_of(value: Any) -> int:
    """Return a whole number.

    Raises:
        ValueError: the value is not one.
    """
    found = whole(value)
    if found is None:
        raise ValueError(value)
    return found


def _file_at(root: Path, name: str) -> WholeFile:
    """Return the place of a file, whose name may have blanks around it that are not meant."""
    exact = look_at(root / name, name)
    trimmed = name.strip()
    if exact.size_bytes or trimmed == name:
        return WholeFile(exact)
    return WholeFile(look_at(root / trimmed, trimmed))
