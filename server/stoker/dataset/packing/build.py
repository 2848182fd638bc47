"""Writing a dataset: from rows, or from files that packing has finished.

A dataset grows in its own folder: finished files are next to a folder `.packing` of temporary
files, and nothing can be opened until the manifest, written last, names them. So a dataset that is
being overwritten stays readable until its successor is complete; files that are not in the new
manifest are then removed. There is one writer at a time: a lock on the folder, which ends with the
process that holds it, rejects a second one.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from stoker.dataset.format.cells import Value, make_cells
from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import (
    CHECK,
    CHECK_TYPE,
    DIGEST,
    DIGEST_TYPE,
    SOURCE,
    SOURCE_TYPE,
    Schema,
    Side,
)
from stoker.dataset.format.fingerprint import dataset_fingerprint
from stoker.dataset.format.manifest import (
    NAME,
    WORK,
    DataFile,
    Manifest,
    Source,
    earlier_manifests,
    keep_manifest,
    read_manifest,
    write_manifest,
)
from stoker.dataset.format.manifest_splits import Splits
from stoker.dataset.format.optional_fields import fill_absent, with_presence
from stoker.dataset.format.summary import Summary, finish_field, statistics
from stoker.dataset.images.inspection import Scratches
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.shard import ShardRecord, ShardWriter
from stoker.dataset.reading.mapping import map_file
from stoker.protocol.errors import DatasetError, ResourceError, StokerError, UsageError

MAX_ROWS_PER_FILE = 2**20
MAX_FILE_BYTES = 2**30
MAX_BAD = 100
_OURS = re.compile(r"[0-9]{5,}-[0-9a-f]{8}\.arrow")


@dataclass(frozen=True)
class Cut:
    """The size of files: a file ends after this many rows or bytes, whichever comes first."""

    rows: int = MAX_ROWS_PER_FILE
    data_bytes: int = MAX_FILE_BYTES


def write_dataset(
    dest: str | os.PathLike[str],
    schema: Schema,
    rows: Iterable[Mapping[str, Value]],
    *,
    cut: Cut | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Write rows as a dataset.

    Args:
        dest: folder of the dataset; created if it is missing.
        schema: its fields, made by `schema.image`, `schema.label` and so on.
        rows: for each sample, a value per field: bytes (encoded pictures, bytes), arrays, scalars.
        cut: where rows are cut into files.
        overwrite: replace an existing dataset.

    Raises:
        UsageError: the schema is invalid, a row lacks a field, or there is already a dataset.
        DatasetError: a value does not fit its field, or there are no rows.
        ResourceError: the disk is full.
    """
    names = {field.name for field in schema.fields}
    needed = {field.name for field in schema.fields if not field.optional}
    schema = with_row_columns(Schema(with_presence(schema.fields)), source=False)
    check_schema(schema)
    folder, cut, scratch = Path(dest), cut or Cut(), Scratches()
    records: list[ShardRecord] = []
    with open_work(folder, overwrite) as work:
        clear(work)
        stream, count = iter(rows), 0
        while True:
            with ShardWriter(folder, work, schema, MAX_BAD) as writer:
                for row in stream:
                    _check_names(row.keys(), names, needed, count)
                    try:
                        filled = fill_absent(schema.fields, row)
                        cells = make_cells(schema.fields, filled, scratch)
                    except CodecError as error:
                        raise DatasetError(f"row {count}, {error}") from None
                    with disk_errors(folder):
                        writer.add(cells, f"row {count}")
                    count += 1
                    if writer.rows >= cut.rows or writer.data_bytes >= cut.data_bytes:
                        break
                if not writer.rows:
                    break
                with disk_errors(folder):
                    records.append(writer.finish(len(records)))
        with disk_errors(folder):
            return commit(folder, schema, records)


def _check_names(got: Set[str], names: Set[str], needed: Set[str], row: int) -> None:
    if needed <= got <= names:
        return
    remedy = ""
    if got < names:
        lacking = ", ".join(sorted(needed - got))
        remedy = f"; if samples may lack {lacking}, declare it with schema.optional"
    raise UsageError(
        f"row {row}: expected the fields {', '.join(sorted(names))}, got "
        f"{', '.join(sorted(got))}{remedy}"
    )


def with_row_columns(schema: Schema, source: bool) -> Schema:
    """Return the schema with the row columns: digest, check and, if requested, source."""
    side = [Side(DIGEST, DIGEST_TYPE), Side(CHECK, CHECK_TYPE)]
    if source:
        side.append(Side(SOURCE, SOURCE_TYPE))
    return msgspec.structs.replace(schema, side=tuple(side))


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn disk errors inside the block into typed errors.

    Raises:
        ResourceError: the disk, or the user's share of it, is full.
        DatasetError: another fault.
    """
    try:
        yield
    except OSError as error:
        what = f"cannot write to {folder}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ResourceError(f"{what}; free some space and run the same command again") from None
        raise DatasetError(f"{what}; check the disk, and run the same command again") from None


@contextlib.contextmanager
def memory_errors(source: str) -> Iterator[None]:
    """Turn a lack of memory inside the block into a typed error.

    Raises:
        ResourceError: the system refused memory.
    """
    try:
        yield
    except MemoryError as error:
        raise ResourceError(
            f"the memory does not suffice to pack {source}{f' ({error})' if str(error) else ''}; "
            "use fewer --workers, or raise the limit of memory (ulimit, memory.max), and run the "
            "same command again: finished work is kept"
        ) from None


@contextlib.contextmanager
def open_work(folder: Path, overwrite: bool) -> Iterator[Path]:
    """Create and lock the work folder of a dataset that will be written.

    Raises:
        UsageError: there is already a dataset or another writer, or the folder is not writable.
    """
    if (folder / NAME).exists() and not overwrite:
        raise UsageError(
            f"{folder} already holds a dataset; choose another place, or pass --overwrite to "
            "replace it"
        )
    work = folder / WORK
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        work.mkdir(parents=True, exist_ok=True)
        if work.is_symlink():  # its files would be removed
            raise OSError(errno.ELOOP, f"{WORK} is a symbolic link")
        descriptor = os.open(work / "lock", flags, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}; choose another place"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(folder) from None
        if (
            os.fstat(descriptor).st_nlink == 0
        ):  # its holder finished between the open and the lock here
            raise _taken(folder)
        yield work
    finally:
        os.close(descriptor)


def _taken(folder: Path) -> UsageError:
    return UsageError(f"another process is writing {folder}; wait for it, or choose another place")


def is_data_file(name: str) -> bool:
    """Return whether a name belongs to a file of rows."""
    return _OURS.fullmatch(name) is not None


def clear(work: Path) -> None:
    """Remove everything from the work folder except the lock."""
    for path in work.iterdir():
        if path.name != "lock":
            path.unlink()


def commit(
    folder: Path,
    schema: Schema,
    records: list[ShardRecord],
    source: Source | UnsetType = UNSET,
    splits: Splits | UnsetType = UNSET,
) -> Manifest:
    """Make finished files a dataset: complete the schema, hash, write the manifest.

    Args:
        folder: folder of the dataset.
        schema: the declared schema.
        records: records of the finished files, in order.
        source: for an index: the source that is read in place.
        splits: those of the dataset that the files are added to.

    Raises:
        DatasetError: there are no rows.
    """
    total = Summary()
    files: list[DataFile] = []
    for record in records:
        total.merge(record.summary, MAX_BAD)
        if record.file is not None:
            first = files[-1].first_row + files[-1].rows if files else 0
            files.append(msgspec.structs.replace(record.file, first_row=first))
    if not files:
        raise DatasetError(
            f"expected at least one sample to write to {folder}, got none; check the source"
        )
    fields = tuple(finish_field(field, total.fields[field.name]) for field in schema.fields)
    manifest = Manifest(
        fingerprint=dataset_fingerprint(
            fields,
            total.rows,
            row_digests(folder, files),
            None if source is UNSET else source.files,
            "content" if source is UNSET else "stat",
        ),
        rows=total.rows,
        schema=msgspec.structs.replace(schema, fields=fields),
        statistics=statistics(fields, total),
        files=tuple(files),
        source=source,
        splits=splits,
    )
    keep_manifest(folder, manifest)
    write_manifest(folder, manifest)
    remove_others(folder, files)
    shutil.rmtree(folder / WORK)
    return manifest


def remove_others(folder: Path, files: Iterable[DataFile]) -> None:
    """Remove the files of rows that a dataset does not name, and manifests that name them."""
    kept = {part.name for file in files for part in file.parts}
    for path in earlier_manifests(folder):
        if not _names(path) <= kept:
            path.unlink()
    for path in folder.iterdir():
        if is_data_file(path.name) and path.name not in kept:
            path.unlink()


def _names(path: Path) -> set[str]:
    """Return the names of the files of an earlier manifest; a damaged one names an unknown file."""
    try:
        manifest = read_manifest(path.parent, path.name)
    except StokerError:
        return {""}
    return {part.name for file in manifest.files for part in file.parts}


def row_digests(folder: Path, files: Iterable[DataFile]) -> Iterator[memoryview]:
    """Yield the row digests of each file, in order."""
    for file in files:
        holder = file.holder(DIGEST)
        place = holder.columns[DIGEST].data
        yield map_file(folder / holder.name, holder.size_bytes)[place.offset : place.end]
