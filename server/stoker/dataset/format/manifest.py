"""The manifest: the one file that makes a folder of Arrow files a dataset. Format version 1.

`manifest.json` holds the schema, the fingerprint, statistics and, for each Arrow file, its first
row, size, content hash and the place of every buffer; so a reader needs no Arrow library and no
pass over the data. It is written last, to a temporary name, flushed and renamed: a folder without
it is not a dataset.

A dataset that grows, by `stoker add-column` or `stoker pack --append`, keeps all its files. Its
earlier manifest stays next to the new one as `manifest-<fingerprint>.json`, so that a daemon can
open again what its streams began with.

Nothing in it is trusted: its size is bounded, it carries its own checksum, types are checked on
reading, and every offset is checked against the sizes of the files (`manifest_check`). Fields may
be added within a version; older readers ignore them, but they count in the checksum.
"""

import os
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from stoker.dataset.format.fields import Schema
from stoker.dataset.format.manifest_splits import Splits
from stoker.dataset.format.source_item import SourceFile
from stoker.protocol import version as contracts
from stoker.protocol.analysis import analyzed
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.datasets import MANIFEST
from stoker.protocol.errors import DatasetError, VersionError
from stoker.protocol.files.absent import why_absent

NAME = MANIFEST
WORK = ".packing"
FORMAT = "stoker-dataset"
MAX_BYTES = 256 * 2**20
_CONTENT = re.compile(r"content:([0-9a-f]{32})")
_KEPT = "manifest-"


class Extent(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A range of bytes in a file."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset of the first byte after it."""
        return self.offset + self.length


class ColumnPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of a column in its file; `offsets` (rows + 1 int64) if items differ in length."""

    data: Extent
    offsets: Extent | None = None


class BesideFile(msgspec.Struct, frozen=True, kw_only=True):
    """A further Arrow file of the same rows, with columns that were added later.

    Attributes:
        name, size_bytes, digest: as of a `DataFile`.
        columns: the place of each column; they replace columns of the same name of earlier files.
    """

    name: str
    size_bytes: int
    digest: str
    columns: dict[str, ColumnPlace]


class DataFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One Arrow file.

    Attributes:
        name: file name inside the dataset's folder.
        first_row: sample id of its first row.
        rows: number of rows.
        size_bytes: size of the file.
        digest: BLAKE2b-128 of the file, 32 hex digits.
        columns: the place of each column.
        beside: further files of the same rows, one for each time that columns were added.
    """

    name: str
    first_row: int
    rows: int
    size_bytes: int
    digest: str
    columns: dict[str, ColumnPlace]
    beside: tuple[BesideFile, ...] = ()

    @property
    def parts(self) -> "tuple[DataFile | BesideFile, ...]":
        """The files of these rows; a column is that of the first that has it."""
        return (*reversed(self.beside), self)

    def holder(self, column: str) -> "DataFile | BesideFile":
        """Return the file that holds a column.

        Raises:
            ValueError: none does.
        """
        for file in self.parts:
            if column in file.columns:
                return file
        raise ValueError(f"column {column!r}: the manifest has no offset for it")


StoredFile = DataFile | BesideFile


class FieldStatistics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of a field over all rows; sides in pixels, after orientation.

    Attributes:
        data_bytes: stored bytes.
        height, width: (smallest, largest, mean) of images or masks.
        turned: number of images or masks whose EXIF orientation is not 1.
        per_class: number of occurrences of each class, as a row's label or an item's label, if
            classes have names.
        gridded: number of JPEGs that were rewritten on a grid.
        by_rows: how many of those have a grid of rows only, because they are narrow.
        came_bytes: original bytes of the JPEGs with a grid.
        gridded_bytes: their stored bytes, including grids.
        values: the least and the greatest number of images of floats, and of labels without names.
    """

    data_bytes: int
    height: tuple[int, int, float] | None = None
    width: tuple[int, int, float] | None = None
    turned: int = 0
    per_class: tuple[int, ...] | None = None
    gridded: int = 0
    by_rows: int = 0
    came_bytes: int = 0
    gridded_bytes: int = 0
    values: tuple[float, float] | None = None


class Note(msgspec.Struct, frozen=True):
    """Something that packing did to files and that their owner should know about."""

    what: str
    count: int
    examples: tuple[str, ...] = ()


class DatasetStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a dataset: per field, notes, and the bad samples that were left out."""

    fields: dict[str, FieldStatistics] = {}
    notes: tuple[Note, ...] = ()
    skipped: int = 0
    skipped_examples: tuple[tuple[str, str], ...] = ()


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """For an index: the source that is read in place, and how it was scanned.

    Attributes:
        name: the user's name for it, a path or a pattern, made absolute.
        kind: kind of the source, a name in `sources.kinds.KINDS`.
        fields: NAME -> KIND, from the user.
        skip_bad: whether bad samples were left out.
        root: the folder that files are relative to.
        files: the files that are read, in order; references count them from 0.
    """

    name: str
    kind: str
    fields: dict[str, str]
    skip_bad: bool
    root: str
    files: tuple[SourceFile, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the manifest; see the module docstring."""

    format: str = FORMAT
    version: int = contracts.MANIFEST
    writer: str = f"stoker {contracts.STOKER}"
    fingerprint: str
    rows: int
    schema: Schema
    statistics: DatasetStatistics
    files: tuple[DataFile, ...]
    source: Source | UnsetType = UNSET
    splits: Splits | UnsetType = UNSET

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(part.size_bytes for file in self.files for part in file.parts)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest atomically and durably: either all of it or nothing."""
    data = msgspec.to_builtins(manifest)
    data["checksum"] = canonical_digest(data)
    _replace(folder, NAME, msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


def keep_manifest(folder: Path, next_one: Manifest) -> None:
    """Keep the present manifest under the name of its fingerprint, before the next one replaces it.

    Only for another fingerprint: a Loader finds the manifest by it. Files of sources that are read
    in place change under their index, so its manifests are not kept.
    """
    try:
        text = (folder / NAME).read_bytes()
        fingerprint = msgspec.json.decode(text)["fingerprint"]
    except (OSError, ValueError, LookupError, TypeError):
        return  # there is none, or a damaged one, which nothing can have open
    if fingerprint != next_one.fingerprint and (name := earlier_name(fingerprint)):
        _replace(folder, name, text)


def earlier_name(fingerprint: object) -> str:
    """Return the name of a kept manifest with this fingerprint; "" if such ones are not kept."""
    found = _CONTENT.fullmatch(fingerprint) if isinstance(fingerprint, str) else None
    return f"{_KEPT}{found[1]}.json" if found else ""


def earlier_manifests(folder: Path) -> list[Path]:
    """Return the paths of the kept manifests of a dataset."""
    return sorted(folder.glob(f"{_KEPT}{'[0-9a-f]' * 32}.json"))


def _replace(folder: Path, name: str, text: bytes) -> None:
    temporary = folder / f".{NAME}.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb") as file:  # "x" follows no link that another user put there
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_manifest(folder: Path, name: str = NAME) -> Manifest:
    """Read a manifest and check its form, version and checksum, but no offsets.

    Args:
        folder: the folder of the dataset.
        name: of the manifest; one of `earlier_manifests` for what the dataset was.

    Raises:
        DatasetError: it is missing or damaged.
        VersionError: it has a newer format.
    """
    data = _parse(folder, name)
    _check_version(folder, data)
    claimed = data.pop("checksum", None)
    try:
        actual = canonical_digest(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged(folder, str(error)) from None
    if claimed != actual:
        raise damaged(folder, f"its checksum is {claimed!r}, but its content has {actual!r}")
    try:
        return msgspec.convert(data, analyzed(Manifest))
    except msgspec.ValidationError as error:
        raise damaged(folder, str(error)) from None


def damaged(folder: Path, what: str) -> DatasetError:
    """Return the error for a damaged manifest."""
    return DatasetError(
        f"{folder / NAME} is damaged: {what}; pack the dataset again, or restore it from a copy",
        dataset=str(folder),
    )


def _parse(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(folder) from None
    except OSError as error:
        raise DatasetError(
            f"cannot read {path}: {error.strerror}; check the path and its permissions",
            dataset=str(folder),
        ) from None
    if len(text) > MAX_BYTES:
        raise damaged(folder, f"it is larger than {MAX_BYTES} bytes")
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise damaged(folder, str(error)) from None
    if not isinstance(data, dict):
        raise damaged(folder, f"expected an object, got {type(data).__name__}")
    return data


def _missing(folder: Path) -> DatasetError:
    if not folder.exists():
        what = f"there is no folder {folder}; check the path{why_absent(str(folder))}"
    elif not folder.is_dir():
        what = f"{folder} is a file, but a dataset is a folder, the one that `stoker pack` wrote"
    elif (folder / WORK).is_dir():
        what = f"{folder} was not packed to the end; run the same `stoker pack` again to continue"
    else:
        what = (
            f"{folder} has no {NAME}: it is not a dataset; make one with "
            f"`stoker pack {folder} DEST`"
        )
    return DatasetError(what, dataset=str(folder))


def _check_version(folder: Path, data: dict[str, Any]) -> None:
    found = data.get("version")
    if data.get("format") != FORMAT or type(found) is not int or found < 1:
        raise damaged(
            folder,
            f"expected format {FORMAT!r} and a version, got {data.get('format')!r}, {found!r}",
        )
    if found > contracts.MANIFEST:
        raise VersionError(
            f"dataset {folder} has format version {found}, but this Stoker ({contracts.STOKER}) "
            "reads up "
            f"to version {contracts.MANIFEST}; update Stoker, or pack the dataset again with this "
            "one",
            dataset=str(folder),
            found=found,
            supported=contracts.MANIFEST,
        )
