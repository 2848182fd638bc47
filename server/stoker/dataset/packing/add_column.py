"""Adding a field to a packed dataset, without writing what it has again.

Each Arrow file gets a further file with the same rows beside it: the added columns, and the row
columns that follow from them (digest and check). All stored bytes are read, because a row's digest
covers them; a damaged row ends the work. The new manifest replaces the old one by a rename, as the
last step. All earlier files stay, and so do earlier manifests, under the names of their
fingerprints: a daemon may still map the files, and open the dataset again as its streams know it.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET

from stoker.dataset.format.arrow import parse_type
from stoker.dataset.format.cells import Cell, FieldError, make_cells
from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import CHECK, DIGEST, Field, Schema
from stoker.dataset.format.fingerprint import add_cells, dataset_fingerprint
from stoker.dataset.format.manifest import (
    WORK,
    BesideFile,
    DataFile,
    Manifest,
    keep_manifest,
    read_manifest,
    write_manifest,
)
from stoker.dataset.format.optional_fields import declared, fill_absent, with_presence
from stoker.dataset.format.row_check import checked_columns, row_check
from stoker.dataset.format.source_item import WholeFile
from stoker.dataset.format.summary import Summary, finish_field, statistics
from stoker.dataset.images.inspection import Scratches
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.append import next_number
from stoker.dataset.packing.build import disk_errors, remove_others, row_digests
from stoker.dataset.packing.column_values import ColumnValues, check_column, read_values
from stoker.dataset.packing.pack import APPLY, KEEP, Options, stored_as
from stoker.dataset.packing.pack_shard import size_fault
from stoker.dataset.packing.shard import ShardWriter, stored_columns
from stoker.dataset.packing.splitting import writable
from stoker.dataset.packing.verify_rows import stored_cell
from stoker.dataset.reading.packed import PackedDataset
from stoker.protocol.errors import UsageError

REPORTED_ROWS = 256


@dataclass(frozen=True)
class AddReport:
    """What was added.

    Attributes:
        manifest: the new manifest.
        field: the new field.
        before: the fingerprint before.
        written_bytes: size of the files that were written.
        remarks: what the owner should know about how the values were read.
    """

    manifest: Manifest
    field: Field
    before: str
    written_bytes: int
    remarks: Sequence[str]


def add_column(
    path: str | os.PathLike[str],
    name: str,
    values: str | os.PathLike[str],
    *,
    kind: str = "",
    images: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AddReport:
    """Add a field to a packed dataset, in place.

    Args:
        path: folder of the dataset.
        name: name of the new field.
        values: a .csv, .tsv, .parquet, .jsonl or .npy file; see `column_values`.
        kind: KIND as of `stoker pack --field`; "" chooses it by the values.
        images: folder that paths of images are relative to; None: that of `values`.
        progress: called with (samples done, samples) now and then.

    Raises:
        DatasetError: there is no dataset, or another process replaced it.
        UsageError: it cannot have the field, or the values do not fit it and its samples.
        SampleError: a stored sample is damaged.
        ResourceError: the disk is full.
    """
    folder = Path(path)
    check_column(name, Path(values), kind)
    with writable(folder) as dataset:
        manifest = dataset.manifest
        _check(dataset, name)
        column = read_values(dataset, name, Path(values), kind, images)
        column = replace(column, field=_stored(dataset, column.field))
        check_schema(_with(manifest.schema, _new_fields(column.field)))
        adding = _Adding(dataset, column, progress or (lambda done, total: None))
        with disk_errors(folder), _removed_unless_named(folder):
            files = tuple(map(adding.beside, manifest.files))
            made = adding.manifest(files)
            keep_manifest(folder, made)
            write_manifest(folder, made)
    written = sum(file.beside[-1].size_bytes for file in files)
    field = next(one for one in made.schema.fields if one.name == name)
    return AddReport(made, field, manifest.fingerprint, written, column.remarks)


def _check(dataset: PackedDataset, name: str) -> None:
    if dataset.manifest.source is not UNSET:
        raise UsageError(
            f"{dataset.path} is an index of files that are read in place, which is made again when "
            "they change: pack it to add fields to it"
        )
    names = [field.name for field in dataset.schema.fields]
    if name in names:
        raise UsageError(
            f"{dataset.path} already has a field {name!r} (it has {', '.join(names)}); choose "
            "another name"
        )


def _stored(dataset: PackedDataset, field: Field) -> Field:
    """Return a declared field as `stoker pack` would store it next to the dataset's images."""
    kept = any(one.keeps_orientation for one in dataset.schema.fields)
    return stored_as(field, Options(orientation=KEEP if kept else APPLY))


@contextlib.contextmanager
def _removed_unless_named(folder: Path) -> Iterator[None]:
    """Afterwards, remove the files that the dataset does not name, also those of a killed run."""
    try:
        yield
    finally:
        remove_others(folder, read_manifest(folder).files)


def _new_fields(field: Field) -> tuple[Field, ...]:
    """Return a field, and its companion if samples may lack it."""
    return with_presence((field,))


def _with(schema: Schema, new: Sequence[Field]) -> Schema:
    """Return the schema with a new field, in the order of packing with it at once."""
    there = declared(schema.fields)
    companions = [one for one in schema.fields if one not in there]
    field, *more = new
    return msgspec.structs.replace(schema, fields=(*there, field, *companions, *more))


class _Adding:
    """The work on a dataset's files, one after the other."""

    def __init__(
        self, dataset: PackedDataset, column: ColumnValues, progress: Callable[[int, int], None]
    ) -> None:
        self._dataset, self._column, self._progress = dataset, column, progress
        self._summary = Summary()
        self._scratch = Scratches()
        self._number = next_number(dataset.manifest)
        self._new = _new_fields(column.field)
        self._schema = _with(dataset.schema, self._new)
        fields = dataset.schema.fields
        pictures = [field for field in fields if field.is_picture]
        self._first = next(iter(pictures), None)
        largest = max((field.bound_bytes for field in pictures), default=0)
        self._pixels = np.empty(largest, np.uint8)

    def beside(self, file: DataFile) -> DataFile:
        """Write a further file of a file's rows, and return the record of all."""
        dataset = self._dataset
        side = tuple(one for one in dataset.schema.side if one.name in (DIGEST, CHECK))
        work = dataset.path / WORK
        with ShardWriter(dataset.path, work, Schema(self._new, side), 0) as writer:
            for number in range(file.first_row, file.first_row + file.rows):
                writer.add_hashed(*self._hashed(number), dataset.source(number) or f"id {number}")
                if number % REPORTED_ROWS == 0:
                    self._progress(number, len(dataset))
            record = writer.finish(self._number)
        self._number += 1
        self._summary.merge(record.summary, 0)
        new = record.file
        assert new is not None
        beside = BesideFile(
            name=new.name, size_bytes=new.size_bytes, digest=new.digest, columns=new.columns
        )
        return msgspec.structs.replace(file, beside=(*file.beside, beside))

    def manifest(self, files: Sequence[DataFile]) -> Manifest:
        """Return the manifest of the dataset with the new field."""
        before = self._dataset.manifest
        new = tuple(finish_field(one, self._summary.fields[one.name]) for one in self._new)
        schema = _with(before.schema, new)
        seen = statistics(new, self._summary)
        notes = {note.what: note for note in (*before.statistics.notes, *seen.notes)}
        return msgspec.structs.replace(
            before,
            fingerprint=dataset_fingerprint(
                schema.fields, before.rows, row_digests(self._dataset.path, files)
            ),
            schema=schema,
            statistics=msgspec.structs.replace(
                before.statistics,
                fields={**before.statistics.fields, **seen.fields},
                notes=tuple(notes[what] for what in sorted(notes)),
            ),
            files=tuple(files),
        )

    def _hashed(self, number: int) -> tuple[dict[str, Cell], bytes, bytes]:
        """Return the new cells of a row, its digest and its check."""
        dataset = self._dataset
        cells = {
            one.name: stored_cell(dataset, one, number, self._pixels)
            for one in dataset.schema.fields
        }
        digest = hashlib.blake2b(digest_size=16)
        add_cells(digest, list(cells.values()))
        if digest.digest() != dataset.digest(number):
            raise dataset.sample_error(
                dataset.schema.fields[0].name, number, "its bytes are not those that were packed"
            )
        new = self._new_cells(number)
        cells |= new
        lengths, values = self._checked(number, new)
        digest = hashlib.blake2b(digest_size=16)
        add_cells(digest, [cells[one.name] for one in self._schema.fields])
        return new, digest.digest(), row_check(lengths, values)

    def _new_cells(self, number: int) -> dict[str, Cell]:
        field, given = self._column.field, self._column.values[number]
        what = f"{given.file.path}: " if isinstance(given, WholeFile) else ""
        first = self._first
        size = None if first is None else self._dataset.size(first.name, number)
        try:
            value = self._column.read(number)
            cells = make_cells(
                self._new, fill_absent(self._new, {field.name: value}, size), self._scratch
            )
        except CodecError as error:
            reason = error.reason if isinstance(error, FieldError) else error
            raise UsageError(f"add-column: the value of sample {number}: {what}{reason}") from None
        cell = cells[field.name]
        if first is not None and size is not None and field.kind == "mask" and not field.relative:
            self._check_size(number, first, size, (cell.items, cell.width))
        return cells

    def _check_size(
        self, number: int, first: Field, size: tuple[int, int], found: tuple[int, int]
    ) -> None:
        if size == found:
            return
        what = f"its {self._column.field.name} has {found[0]}x{found[1]}"
        fault = size_fault(first, size, self._column.field, what, "--kind ")
        raise UsageError(f"add-column: sample {number}: {fault}")

    def _checked(
        self, number: int, new: dict[str, Cell]
    ) -> tuple[list[int], list[bytes | memoryview]]:
        """Return the lengths and values that the row's check covers, with the new cells."""
        stored = dict(
            zip(
                checked_columns(self._dataset.schema), self._dataset.checked(number)[1], strict=True
            )
        )
        values = stored
        for field in self._new:
            values |= stored_columns(field, new[field.name])
        types = dict(self._schema.columns())
        order = checked_columns(self._schema)
        variable = [name for name in order if parse_type(types[name]).layout == "variable"]
        return [memoryview(values[name]).nbytes for name in variable], [
            values[name] for name in order
        ]
