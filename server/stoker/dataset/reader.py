"""Reading a packed dataset: O(1), zero-copy, nothing kept per sample.

`open_dataset` reads and checks the manifest, and that the files are there; a file is mapped at its
first use and kept among the `max_maps` used last. What `read` returns are views of the map and keep
it alive, also after `close` and after the file left the cache. Runs in workers and in user
processes, after a fork too; threads may share a Dataset. Imports no pyarrow, numba or torch.
"""

import bisect
import contextlib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stoker.dataset.arrow import parse_type
from stoker.dataset.check import check_files, check_manifest
from stoker.dataset.codecs import CHANNELS, Scratch, decode_picture
from stoker.dataset.limits import CodecError
from stoker.dataset.manifest import ColumnPlace, DataFile, Manifest, read_manifest
from stoker.dataset.mapping import map_file
from stoker.dataset.schema import DIGEST, SOURCE, Field, Schema
from stoker.protocol.errors import (
    ClosedError,
    DatasetError,
    SampleError,
    UnknownNameError,
    UsageError,
)

MAX_MAPS = 256


def open_dataset(path: str | os.PathLike[str], *, max_maps: int = MAX_MAPS) -> "Dataset":
    """Open a packed dataset.

    Args:
        path: the folder that `stoker pack` wrote.
        max_maps: how many files are mapped at once, at most.

    Raises:
        DatasetError: it is missing or damaged.
        VersionError: it was packed by a newer Stoker.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    check_manifest(folder, manifest)
    check_files(folder, manifest)
    return Dataset(folder, manifest, max_maps)


@dataclass(frozen=True)
class _Column:
    """A column of a mapped file: items of equal size, or bytes with their offsets."""

    items: np.ndarray | memoryview
    offsets: np.ndarray | None
    start: int


class Dataset:
    """A read-only, indexable collection of samples; made by `open_dataset`.

    Attributes:
        path: its folder.
        manifest: its manifest.
        schema: its fields.
        fingerprint: `content:<32 hex digits>`.
    """

    def __init__(self, path: Path, manifest: Manifest, max_maps: int) -> None:
        self.path = path
        self.manifest = manifest
        self.schema: Schema = manifest.schema
        self.fingerprint = manifest.fingerprint
        self._first_rows = [file.first_row for file in manifest.files]
        self._types = {name: parse_type(text) for name, text in manifest.schema.columns()}
        self._fields = {field.name: field for field in manifest.schema.fields}
        self._files: OrderedDict[int, dict[str, _Column]] = OrderedDict()
        self._max_maps = max(1, max_maps)
        self._lock = threading.Lock()
        self._local = threading.local()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.manifest.rows

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the maps; views that were handed out stay valid. Closing twice is allowed."""
        self._closed = True
        with self._lock:
            self._files.clear()

    def size(self, field: str, id: int) -> tuple[int, int]:  # noqa: A002 - the glossary's word
        """Return (height, width) of a picture after EXIF orientation, without reading it.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size, or there is no such id.
        """
        self._picture(field)
        columns, row = self._find(id)
        return int(columns[f"{field}.height"].items[row]), int(columns[f"{field}.width"].items[row])

    def orientation(self, field: str, id: int) -> int:  # noqa: A002
        """Return the EXIF orientation (1..8) of a picture's stored bytes.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size, or there is no such id.
        """
        spec = self._picture(field)
        columns, row = self._find(id)
        return 1 if spec.encoding == "raw" else int(columns[f"{field}.orientation"].items[row])

    def source(self, id: int) -> str | None:  # noqa: A002
        """Return the path of the file that the sample came from, if the dataset knows it."""
        columns, row = self._find(id)
        if SOURCE not in columns:
            return None
        return bytes(self._slice(SOURCE, columns[SOURCE], row, id)).decode(errors="replace")

    def digest(self, id: int) -> bytes | None:  # noqa: A002
        """Return the digest of the sample's content as it was packed, 16 bytes."""
        columns, row = self._find(id)
        return bytes(columns[DIGEST].items[row]) if DIGEST in columns else None

    def read(self, field: str, id: int) -> memoryview | np.ndarray | np.generic:  # noqa: A002
        """Return a field as it is stored, without a copy.

        Returns:
            The file's bytes (encoded pictures, bytes), an array (raw pictures (H, W, 3) or (H, W),
            arrays), or a NumPy scalar (label, scalar). All read-only.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id.
            SampleError: the file's own offsets are damaged.
        """
        spec = self._field(field)
        columns, row = self._find(id)
        column = columns[field]
        if column.offsets is None:
            assert isinstance(column.items, np.ndarray)
            item: np.ndarray | np.generic = column.items[row]
            return item.view(np.bool_) if spec.dtype == "bool" else item
        data = self._slice(field, column, row, id)
        if spec.kind == "bytes" or (spec.is_picture and spec.encoding != "raw"):
            return data
        if spec.is_picture:
            return self._raw_picture(spec, data, id)
        items = np.frombuffer(data, spec.dtype)
        return items.reshape(-1, *self._types[field].inner)

    def decode(self, field: str, id: int, out: np.ndarray) -> np.ndarray:  # noqa: A002
        """Decode a picture, upright, into the caller's memory.

        Args:
            field: an image or mask.
            id: the sample's id.
            out: flat, contiguous, writable uint8 array of at least H * W * channels bytes.

        Returns:
            A contiguous view of `out`: (H, W, 3) for images, (H, W) for masks.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is no picture, there is no such id, or `out` is too small.
            SampleError: the stored bytes are damaged; details name dataset, id, field and offset.
        """
        spec = self._picture(field)
        size = self.size(field, id)
        needed = size[0] * size[1] * CHANNELS[spec.kind]
        if (
            out.dtype != np.uint8
            or out.ndim != 1
            or not out.flags.c_contiguous
            or out.size < needed
        ):
            raise UsageError(
                f"field {field!r} of id {id}: expected flat, contiguous uint8 memory of at least "
                f"{needed} "
                f"bytes, got {out.dtype} of shape {out.shape}"
            )
        data = self.read(field, id)
        if isinstance(data, np.ndarray):
            target = out[:needed].reshape(data.shape)
            np.copyto(target, data)
            return target
        assert isinstance(data, memoryview)
        try:
            return decode_picture(
                data, spec.kind, size, self.orientation(field, id), out, self._scratch()
            )
        except CodecError as error:
            raise self._sample_error(field, id, f"cannot decode it: {error}") from None

    def _field(self, name: str) -> Field:
        try:
            return self._fields[name]
        except KeyError:
            raise UnknownNameError(
                f"dataset {self.path} has no field {name!r}; its fields are "
                f"{', '.join(self._fields)}",
                dataset=str(self.path),
                field=name,
            ) from None

    def _picture(self, name: str) -> Field:
        field = self._field(name)
        if not field.is_picture:
            raise UsageError(
                f"field {name!r} is of kind {field.kind}, which has no height and width and is not "
                "decoded; use read()"
            )
        return field

    def _find(self, id: int) -> tuple[dict[str, _Column], int]:  # noqa: A002
        if not 0 <= id < self.manifest.rows:
            raise UsageError(f"dataset {self.path} has ids 0 to {self.manifest.rows - 1}, got {id}")
        index = bisect.bisect_right(self._first_rows, id) - 1
        columns = self._files.get(index)
        if columns is None:
            columns = self._open(index)
        else:
            with contextlib.suppress(KeyError):  # evicted by another thread: our reference keeps it
                self._files.move_to_end(index)
        return columns, id - self._first_rows[index]

    def _open(self, index: int) -> dict[str, _Column]:
        if self._closed:
            raise ClosedError(
                f"dataset {self.path} was closed; open it again", dataset=str(self.path)
            )
        file = self.manifest.files[index]
        try:
            view = map_file(self.path / file.name, file.size_bytes)
        except OSError as error:
            raise DatasetError(
                f"dataset {self.path}: cannot map its file {file.name}: {error.strerror}; restore "
                "it, or "
                "pack the dataset again",
                dataset=str(self.path),
            ) from None
        columns = {name: self._column(name, file.columns[name], view) for name in self._types}
        with self._lock:
            self._files[index] = columns
            while len(self._files) > self._max_maps:
                self._files.popitem(last=False)
        return columns

    def _column(self, name: str, place: ColumnPlace, view: memoryview) -> _Column:
        kind = self._types[name]
        data = view[place.data.offset : place.data.end]
        if place.offsets is not None:
            offsets = np.frombuffer(view[place.offsets.offset : place.offsets.end], np.int64)
            return _Column(data, offsets, place.data.offset)
        dtype = np.uint8 if kind.dtype == "bool" else np.dtype(kind.dtype)
        items = np.frombuffer(data, dtype).reshape(-1, *kind.inner)
        return _Column(items, None, place.data.offset)

    def _slice(self, name: str, column: _Column, row: int, id: int) -> memoryview:  # noqa: A002
        assert column.offsets is not None
        assert isinstance(column.items, memoryview)
        step = np.dtype(self._types[name].dtype).itemsize
        start, stop = int(column.offsets[row]) * step, int(column.offsets[row + 1]) * step
        if not 0 <= start <= stop <= len(column.items):
            raise self._sample_error(name, id, f"its offsets {start} and {stop} are damaged")
        return column.items[start:stop]

    def _raw_picture(self, spec: Field, data: memoryview, id: int) -> np.ndarray:  # noqa: A002
        shape = self.size(spec.name, id)
        channels = CHANNELS[spec.kind]
        if shape[0] * shape[1] * channels != len(data) or min(shape) < 1:
            raise self._sample_error(
                spec.name, id, f"{len(data)} bytes are no picture of {shape[0]}x{shape[1]} pixels"
            )
        return (
            np.frombuffer(data, np.uint8).reshape(*shape, 3)
            if channels == 3
            else np.frombuffer(data, np.uint8).reshape(shape)
        )

    def _scratch(self) -> Scratch:
        scratch: Scratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = Scratch()
        return scratch

    def _sample_error(self, field: str, id: int, what: str) -> SampleError:  # noqa: A002
        file, offset = self.locate(field, id)
        return SampleError(
            f"dataset {self.path}, id {id}, field {field!r} ({file.name}, byte {offset}): {what}; "
            "check "
            f"the dataset with `stoker verify {self.path}`",
            dataset=str(self.path),
            id=int(id),
            field=field,
            file=file.name,
            offset=offset,
        )

    def locate(self, field: str, id: int) -> tuple[DataFile, int]:  # noqa: A002
        """Return the file that holds a sample's field, and the byte at which it begins there."""
        columns, row = self._find(id)
        index = bisect.bisect_right(self._first_rows, id) - 1
        column = columns[field]
        if column.offsets is None:
            return self.manifest.files[index], column.start + row * self._types[field].item_bytes
        step = np.dtype(self._types[field].dtype).itemsize
        return self.manifest.files[index], column.start + int(column.offsets[row]) * step
