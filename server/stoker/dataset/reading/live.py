"""Live sources: samples that a user-defined class makes on demand, without packing.

    class Photos:
        fields = (schema.bounded(schema.image(), 1024, 1024), schema.label())
        fingerprint = "photos of 2026-11-21"

        def __len__(self): ...
        def __getitem__(self, index): return {"image": jpeg_bytes, "label": 3}

The class is named `module:Class` by the operator's configuration or on the user's own command line.
It is imported by that name and instantiated without arguments, once in every worker. Its results
are checked as when packing. Nothing is known about a sample before it is made, so `fields` declare
the bounds, and the class declares the fingerprint. The fingerprint must be changed with anything
that a sample depends on, because the law holds only if equal fingerprints mean equal samples. The
name of the class, its source and the values that it reads are part of the fingerprint already, so
an edit is another dataset, and so is a second class that declares the same text.

A sample that cannot be made follows the bad-sample policy. An OSError is retried and then ends the
stream, since a later try might succeed. Pillow also raises OSError for a damaged file, but without
a system error number: that is a bad sample like any other.
"""

import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stoker.dataset.format.cells import Cell, Value, make_cell, make_cells
from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import UPRIGHT, Field, Schema
from stoker.dataset.format.fingerprint import dataset_fingerprint, row_digest
from stoker.dataset.format.manifest import DatasetStatistics, Manifest, StoredFile
from stoker.dataset.format.optional_fields import declared, fill_absent, with_presence
from stoker.dataset.images.header_size import size_from_header
from stoker.dataset.images.inspection import Scratches
from stoker.dataset.limits import TRIES, CodecError
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.jit.named import resolve
from stoker.ops.custom.provenance import provenance
from stoker.protocol.errors import DatasetError, SampleError, StokerError, UsageError

MAX_FINGERPRINT = 1024


def open_live(name: str) -> "LiveDataset":
    """Open the live source `module:Class`.

    Raises:
        DatasetError: it cannot be imported or made, or lacks a declaration.
    """
    try:
        source = resolve(name, trusted=True)()
    except StokerError as error:
        raise DatasetError(f"live source {name}: {error.message}", dataset=name) from None
    except Exception as error:
        raise DatasetError(
            f"live source {name}: making it failed with {type(error).__name__}: {error}; it is "
            "called without arguments",
            dataset=name,
        ) from error
    return LiveDataset(name, source, _manifest(name, source))


class LiveDataset(Dataset):
    """A dataset whose samples a user-defined class makes; created by `open_live`."""

    def __init__(self, name: str, source: Any, manifest: Manifest) -> None:
        super().__init__(Path(name), manifest)
        self._source = source
        self._own = threading.local()

    def size(self, field: str, sample_id: int) -> tuple[int, int]:
        """Return (height, width) of an image or mask after EXIF orientation; makes the sample."""
        self._picture(field)
        cell = self._cells(sample_id)[field]
        return cell.items, cell.width

    def sizes(self, field: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Raise: sizes are not known before the samples are made.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"live source {self.path}: the sizes of its images are not known before they are "
            "made; pack it, to plan by sizes"
        )

    def lengths(self, field: str) -> Iterator[np.ndarray]:
        """Raise: lengths are not known before the samples are made.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"live source {self.path}: the length of {field!r} is not known before its samples are "
            "made; pack it, to plan by lengths"
        )

    def numbers(self, field: str) -> Iterator[np.ndarray]:
        """Raise: values are not known before the samples are made.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"live source {self.path}: the value of {field!r} is not known before its samples are "
            "made; pack it, or give an array of one number per sample"
        )

    def sizes_of(self, field: str, ids: np.ndarray) -> np.ndarray:
        """Raise: sizes are not known before the samples are made.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"live source {self.path}: the size of {field!r} is not known before its samples are "
            "made, so no batch can be padded to its longest row; pack it, or deliver the output "
            "with outputs.as_list or outputs.ragged"
        )

    def close(self) -> None:
        """Do nothing: no file is open."""

    def reference(self, field: str, sample_id: int) -> bytes:
        """Raise: a live source holds no references.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"field {field!r} of dataset {self.path} holds values, not references; use read()"
        )

    def grid(self, field: str, sample_id: int) -> None:
        """Return None: images are as the class made them."""
        self._picture(field)

    def orientation(self, field: str, sample_id: int) -> int:
        """Return the EXIF orientation (1..8) of the bytes of an image or mask."""
        spec = self._picture(field)
        return 1 if spec.encoding in UPRIGHT else int(self._cells(sample_id)[field].sides[2])

    def read(self, field: str, sample_id: int) -> memoryview | np.ndarray | np.generic:
        """Return a field as the class made it; see `Dataset.read`."""
        spec = self._field(field)
        cell = self._cells(sample_id)[field]
        data = memoryview(cell.data)
        if spec.kind == "bytes" or (spec.is_picture and spec.encoding != "raw"):
            return data
        if spec.is_picture:
            return self._raw_picture(spec, data, sample_id)
        if spec.shape:
            return self._ragged(spec, data, sample_id)
        number: np.generic = np.frombuffer(data, spec.dtype)[0]
        return number

    def alike(self, fields: Sequence[str]) -> None:
        """Return None: samples are made one by one."""

    def gather(self, field: str, ids: np.ndarray, out: np.ndarray) -> bool:
        """Return False: samples are made one by one."""
        return False

    def will_need(self, fields: Sequence[str], ids: np.ndarray) -> None:
        """Do nothing: there is nothing to read ahead."""

    def source(self, sample_id: int) -> str | None:
        """Return None: samples come from no known file."""
        return None

    def digest(self, sample_id: int) -> bytes:
        """Return the digest of the sample's current content, 16 bytes."""
        cells = self._cells(sample_id)
        return row_digest([cells[field.name] for field in self.schema.fields])

    def is_intact(self, sample_id: int) -> bool:
        """Return True: nothing is stored."""
        return True

    def locate(self, field: str, sample_id: int) -> tuple[StoredFile, int]:
        """Raise: samples are not in a file.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"live source {self.path}: its samples are not in a file")

    def _whereabouts(self, field: str, sample_id: int) -> tuple[str, int]:
        return str(self.path), 0

    def _cells(self, sample_id: int) -> dict[str, Cell]:
        if not 0 <= sample_id < len(self):
            raise UsageError(f"dataset {self.path} has ids 0 to {len(self) - 1}, got {sample_id}")
        last: tuple[int, dict[str, Cell]] | None = getattr(self._own, "last", None)
        if last is None or last[0] != sample_id:
            self._own.last = last = (sample_id, self._make(sample_id))
        return last[1]

    def _make(self, sample_id: int) -> dict[str, Cell]:
        row, fields = self._row_of(sample_id), self.schema.fields
        try:
            names = {field.name for field in declared(fields)}
            needed = {field.name for field in declared(fields) if not field.optional}
            if not isinstance(row, dict) or not needed <= row.keys() <= names:
                got = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
                few = isinstance(row, dict) and row.keys() < names
                lacks = "; declare what samples may lack with schema.optional" if few else ""
                raise CodecError(f"expected a dict of {', '.join(sorted(names))}, got {got}{lacks}")
            cells = make_cells(fields, fill_absent(fields, row), Scratches(), _cell)
            for field in fields:
                _check_bound(field, cells[field.name])
        except CodecError as error:
            raise self._bad(sample_id, str(error)) from None
        return cells

    def _row_of(self, sample_id: int) -> Any:
        last: Exception | None = None
        for _ in range(TRIES):
            try:
                return self._source[sample_id]
            except Exception as error:
                if not isinstance(error, OSError) or _is_of_pillow(error):
                    raise self._bad(sample_id, f"{type(error).__name__}: {error}") from error
                last = error
        raise DatasetError(
            f"live source {self.path}, id {sample_id}: {TRIES} tries failed, the last with "
            f"{type(last).__name__}: {last}",
            dataset=str(self.path),
            id=int(sample_id),
        ) from last

    def _bad(self, sample_id: int, what: str) -> SampleError:
        return SampleError(
            f"live source {self.path}, id {sample_id}: {what}",
            dataset=str(self.path),
            id=int(sample_id),
            reason=what,
        )


def _is_of_pillow(error: OSError) -> bool:
    """Return whether Pillow itself raised an error, about the content of a file.

    An error of storage or network while Pillow reads is raised elsewhere, or has an errno.
    """
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__"))
    return error.errno is None and module.partition(".")[0] == "PIL"


def _cell(field: Field, value: Value, scratch: Scratches) -> Cell:
    """Return a cell like `make_cell`, but without decoding an image file: reading does that."""
    if not isinstance(value, bytes) or field.encoding not in ("encoded", "jpeg", "png"):
        return make_cell(field, value, scratch)
    keep = bool(field.keeps_orientation)
    seen = size_from_header(len(value), field.kind, lambda size: value[:size], keep)
    if field.encoding not in ("encoded", seen.encoding):
        raise CodecError(f"expected encoding {field.encoding}, got {seen.encoding}")
    sides = (seen.height, seen.width, seen.orientation)
    return Cell(value, sides, b"", seen.height, seen.width, seen.encoding)


def _check_bound(field: Field, cell: Cell) -> None:
    found = (cell.items, cell.width) if field.is_picture else (cell.items,)
    sides = zip(found, field.bound, field.shape, strict=False)
    if any(got > most or want not in (None, got) for got, most, want in sides):
        raise CodecError(
            f"field {field.name!r}: expected a shape {field.shape} of at most {field.bound}, got "
            f"{found}"
        )


def _manifest(name: str, source: Any) -> Manifest:
    """Return the manifest of a live source.

    Raises:
        DatasetError: the class lacks a declaration.
    """
    fields: Any = getattr(source, "fields", None)
    declared: Any = getattr(source, "fingerprint", None)
    good = isinstance(fields, tuple | list) and all(isinstance(field, Field) for field in fields)
    if not good or not isinstance(declared, str) or not 1 <= len(declared) <= MAX_FINGERPRINT:
        raise DatasetError(
            f"live source {name}: expected attributes `fields`, made by stoker.dataset.schema, and "
            f"`fingerprint`, text of 1 to {MAX_FINGERPRINT} characters, got {fields!r} and "
            f"{declared!r}",
            dataset=name,
        )
    module = name.partition(":")[0]
    try:
        code = provenance(module, type(source))
        rows = len(source)
        finished = tuple(_finished(field) for field in with_presence(fields))
        check_schema(Schema(finished))
    except Exception as error:
        raise DatasetError(f"live source {name}: {error}", dataset=name) from error
    if rows < 1:
        raise DatasetError(f"live source {name} has no samples", dataset=name)
    identity = [text.encode() for text in (declared, name, code.source, *code.distributions)]
    return Manifest(
        fingerprint=dataset_fingerprint(finished, rows, identity, level="declared"),
        rows=rows,
        schema=Schema(finished),
        statistics=DatasetStatistics(),
        files=(),
    )


def _finished(field: Field) -> Field:
    """Return a field with its bound, which must be declared if its shape is open."""
    if field.grid_column is not None or field.encoding == "bands":
        raise UsageError(
            f"field {field.name!r}: only packed images and masks can have grids or bands"
        )
    if len(field.bound) == len(field.shape):
        return field
    if None in field.shape:
        raise UsageError(
            f"field {field.name!r} has the open shape {field.shape}; declare its largest size with "
            "schema.bounded(field, ...)"
        )
    return msgspec.structs.replace(field, bound=tuple(side or 0 for side in field.shape))
