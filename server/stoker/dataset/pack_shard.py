"""Packs one file of a dataset: reads its items, judges each, writes the Arrow file and its record.

Runs in a worker process. What it writes depends on its items alone. An item that cannot be stored
is left out and named in the record; the packing process decides what that means. The record
(`00007.json` in the work folder, renamed into place after the file) is what a later run resumes
from.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stoker.dataset.build import disk_errors
from stoker.dataset.cells import Cell, make_cell
from stoker.dataset.inspect import Scratches
from stoker.dataset.limits import MAX_FILE_BYTES, CodecError
from stoker.dataset.schema import Field, Schema
from stoker.dataset.shard import ShardRecord, ShardWriter
from stoker.dataset.sources.scan import Item, SourceFile


class ShardJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to pack.

    Attributes:
        index: number of the file.
        source: folder of the source.
        dest, work: folders of the dataset and of temporary files.
        schema: columns to write.
        listing: file of items, one JSON line each.
        offset: where this job's items begin in it, in bytes.
        count: how many items.
        size_bytes: bytes of their files.
        key: digest of everything that the result depends on.
        max_bad: how many bad items are named.
    """

    index: int
    source: str
    dest: str
    work: str
    schema: Schema
    listing: str
    offset: int
    count: int
    size_bytes: int
    key: str
    max_bad: int


class KeptRecord(msgspec.Struct, frozen=True):
    """A shard's record as it lies in the work folder, under the key of what it was made from."""

    key: str
    record: ShardRecord


def pack_shard(argument: Any, report: Any) -> Any:
    """Pack one file; takes a `ShardJob` and returns a `ShardRecord`, both in JSON form.

    Raises:
        ResourceError: the disk is full.
        DatasetError: the file cannot be written for another reason.
    """
    job = msgspec.convert(argument, ShardJob)
    with disk_errors(Path(job.dest)):
        record = _pack(job, report)
        keep_record(Path(job.work), job.index, KeptRecord(job.key, record))
    return msgspec.to_builtins(record)


def keep_record(work: Path, index: int, kept: KeptRecord) -> None:
    """Write a record into the work folder, whole or not at all."""
    temporary = work / f"{index:05d}.{os.getpid()}.record"
    temporary.write_bytes(msgspec.json.encode(kept))
    os.replace(temporary, work / f"{index:05d}.json")


def _pack(job: ShardJob, report: Any) -> ShardRecord:
    source, scratch = Path(job.source), Scratches()
    with ShardWriter(Path(job.dest), Path(job.work), job.schema, job.max_bad) as writer:
        for item in _items(job):
            try:
                cells = _cells(job.schema.fields, item, source, scratch)
                _check_sizes(job.schema.fields, item, cells)
            except _BadItemError as bad:
                writer.add_bad(bad.path, bad.reason)
            else:
                writer.add(cells, item.files[0].path)
            report(1, sum(file.size_bytes for file in item.files))
        return writer.finish(job.index)


class _BadItemError(Exception):
    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason


def _items(job: ShardJob) -> Iterator[Item]:
    with open(job.listing, "rb") as lines:
        lines.seek(job.offset)
        for _ in range(job.count):
            yield msgspec.json.decode(lines.readline(), type=Item)


def _cells(
    fields: tuple[Field, ...], item: Item, source: Path, scratch: Scratches
) -> dict[str, Cell]:
    files, cells = iter(item.files), {}
    for field in fields:
        if field.is_picture:
            file = next(files)
            try:
                cells[field.name] = make_cell(field, _read(source, file), scratch)
            except CodecError as error:
                raise _BadItemError(file.path, str(error)) from None
        else:
            assert item.label is not None
            cells[field.name] = make_cell(field, item.label, scratch)
    return cells


def _read(source: Path, file: SourceFile) -> bytes:
    """Read a file; one that is no plain file, too large or changed meanwhile is refused."""
    try:
        with open(source / file.path, "rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CodecError(f"it cannot be read: {error.strerror}") from None
    return data


def _check_sizes(fields: tuple[Field, ...], item: Item, cells: dict[str, Cell]) -> None:
    """Check that all pictures of an item have one size, after orientation."""
    pictures = [cells[field.name] for field in fields if field.is_picture]
    first = pictures[0]
    for file, cell in zip(item.files[1:], pictures[1:], strict=True):
        if (cell.items, cell.width) != (first.items, first.width):
            raise _BadItemError(
                item.files[0].path,
                f"it has {first.items}x{first.width} pixels (height x width, upright), but "
                f"{file.path} "
                f"has {cell.items}x{cell.width}; partners must agree",
            )
