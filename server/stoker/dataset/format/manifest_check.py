"""Checks of a manifest: every row, buffer and name in it must be possible.

Done once per opening, in O(files * columns). After it, the reader may add an offset from the
manifest to the address of a map without further checks; offsets *inside* the data (of items that
differ in length) are checked per sample.
"""

import re
from pathlib import Path

from msgspec import UNSET

from stoker.dataset.format.arrow import ALIGN, ITEM_BYTES, parse_type
from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import DIGEST, DIGEST_TYPE, ENCODINGS, KINDS, Side
from stoker.dataset.format.manifest import ColumnPlace, DataFile, Extent, Manifest, damaged
from stoker.protocol import version as contracts
from stoker.protocol.errors import DatasetError, UsageError, VersionError

MAX_ROWS_PER_FILE = 2**20
MAX_ROWS = 2**48
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\.arrow")
_FINGERPRINT = re.compile(r"(content|stat):[0-9a-f]{32}")


def check_manifest(folder: Path, manifest: Manifest) -> None:
    """Check a manifest, without looking at its files.

    Raises:
        DatasetError: a part of it is impossible.
        VersionError: it has a kind or an encoding that only a newer Stoker knows.
    """
    _check_fields(folder, manifest)
    if Side(DIGEST, DIGEST_TYPE) not in manifest.schema.side:
        raise damaged(folder, f"expected the column {DIGEST!r} of type {DIGEST_TYPE}")
    if not _FINGERPRINT.fullmatch(manifest.fingerprint):
        raise damaged(
            folder,
            "expected a fingerprint content:<32 hex> or stat:<32 hex>, got "
            f"{manifest.fingerprint!r}",
        )
    refers = any(field.referenced for field in manifest.schema.fields)
    if (manifest.source is UNSET) == refers or refers != manifest.fingerprint.startswith("stat:"):
        raise damaged(
            folder,
            "expected references, a source and a fingerprint stat:<32 hex> together or not at all",
        )
    row = 0
    for file in manifest.files:
        if file.first_row != row or not 1 <= file.rows <= MAX_ROWS_PER_FILE:
            raise damaged(
                folder,
                f"{file.name}: expected first row {row} and 1 to {MAX_ROWS_PER_FILE} rows, "
                f"got {file.first_row} and {file.rows}",
            )
        row += file.rows
        try:
            _check_file(manifest, file)
        except ValueError as error:
            raise damaged(folder, f"{file.name}: {error}") from None
    if row != manifest.rows or not 1 <= row <= MAX_ROWS:
        raise damaged(folder, f"expected {manifest.rows} rows in total, got {row} in its files")


def _check_fields(folder: Path, manifest: Manifest) -> None:
    for field in manifest.schema.fields:
        if field.kind not in KINDS or field.encoding not in ENCODINGS:
            raise VersionError(
                f"dataset {folder}: field {field.name!r} is of kind {field.kind!r} and encoding "
                f"{field.encoding!r}, which this Stoker ({contracts.STOKER}) does not know; update "
                "Stoker",
                dataset=str(folder),
                field=field.name,
            )
        if len(field.bound) != len(field.shape):
            raise damaged(folder, f"field {field.name!r}: shape {field.shape}, bound {field.bound}")
    try:
        check_schema(manifest.schema)
    except UsageError as error:
        raise damaged(folder, error.message) from None


def check_files(folder: Path, manifest: Manifest) -> None:
    """Check that every file exists and has the right size.

    Raises:
        DatasetError: a file is missing, unreadable, or has another size.
    """
    for file in (part for whole in manifest.files for part in whole.parts):
        path = folder / file.name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise DatasetError(
                f"dataset {folder}: cannot read its file {file.name}: {error.strerror}; restore "
                "it, or pack the dataset again",
                dataset=str(folder),
            ) from None
        if size != file.size_bytes:
            raise DatasetError(
                f"dataset {folder}: {file.name} has {size} bytes, but the manifest says "
                f"{file.size_bytes}; it was truncated or changed: restore it, or pack the dataset "
                "again",
                dataset=str(folder),
            )


def _check_file(manifest: Manifest, file: DataFile) -> None:
    if not all(_NAME.fullmatch(part.name) for part in file.parts):
        raise ValueError("expected a plain file name that ends with .arrow")
    for name, text in manifest.schema.columns():
        holder = file.holder(name)
        _check_place(name, text, holder.columns[name], file.rows, holder.size_bytes)


def _check_place(name: str, text: str, place: ColumnPlace, rows: int, size_bytes: int) -> None:
    kind = parse_type(text)
    _check_extent(f"data of column {name!r}", place.data, size_bytes)
    if kind.layout == "fixed":
        if place.data.length != rows * kind.item_bytes or place.offsets is not None:
            raise ValueError(
                f"column {name!r}: expected {rows} items of {kind.item_bytes} bytes and no "
                f"offsets, got {place.data.length} bytes"
            )
        return
    if place.offsets is None or place.offsets.length != 8 * (rows + 1):
        raise ValueError(f"column {name!r}: expected {rows + 1} offsets")
    if place.data.length % ITEM_BYTES[kind.dtype]:
        raise ValueError(
            f"column {name!r}: expected a multiple of the size of {kind.dtype}, got "
            f"{place.data.length} bytes"
        )
    _check_extent(f"offsets of column {name!r}", place.offsets, size_bytes)


def _check_extent(what: str, extent: Extent, size_bytes: int) -> None:
    inside = min(extent.offset, extent.length) >= 0 and extent.end <= size_bytes
    if not inside or extent.offset % ALIGN:
        raise ValueError(
            f"{what}: expected a multiple of {ALIGN} as offset and an end up to {size_bytes}, got "
            f"offset {extent.offset}, length {extent.length}"
        )
