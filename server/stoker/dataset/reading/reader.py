"""Reading a packed dataset: O(1), zero-copy, with nothing kept per sample.

`open_folder` reads and checks the manifest, and checks that the files exist; the files are mapped
when they are first used (`reading.columns`). `read` returns read-only views of a map, which stay
valid after `close`. Runs in workers and in user processes, also after a fork; threads may share a
Dataset. Imports no pyarrow, numba or torch.
"""

import contextlib
import math
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import UNSET

from stoker.dataset.format.check import check_files, check_manifest
from stoker.dataset.format.manifest import DataFile, Manifest, read_manifest
from stoker.dataset.format.schema import DIGEST, SOURCE, UPRIGHT, Field
from stoker.dataset.images.bands import decode_bands
from stoker.dataset.images.boxed import BoxScratch, decode_boxed
from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.images.orientation import upright_size
from stoker.dataset.limits import CodecError
from stoker.dataset.reading.alike import AlikeFields, is_alike
from stoker.dataset.reading.columns import (
    ColumnFiles,
    FixedColumn,
    ReferenceColumn,
    Row,
    VariableColumn,
)
from stoker.dataset.reading.mapping import will_need
from stoker.dataset.reading.source_files import SourceFiles
from stoker.protocol.errors import DatasetError, SampleError, UnknownNameError, UsageError

MAX_MAPS = 256


def open_folder(folder: Path, max_maps: int = MAX_MAPS) -> "Dataset":
    """Open the dataset in a folder that holds a manifest.

    Args:
        folder: the folder that `stoker pack` wrote, or the index of a source read in place.
        max_maps: maximum number of files that are mapped at once.

    Raises:
        DatasetError: it is missing or damaged.
        VersionError: it was packed by a newer Stoker.
    """
    manifest = read_manifest(folder)
    check_manifest(folder, manifest)
    check_files(folder, manifest)
    return Dataset(folder, manifest, max_maps)


class Dataset:
    """A read-only, indexable collection of samples; made by `stoker.dataset.open_dataset`.

    Attributes:
        path: its folder.
        manifest: its manifest.
        schema: its fields.
        fingerprint: `content:<32 hex digits>`.
    """

    def __init__(self, path: Path, manifest: Manifest, max_maps: int) -> None:
        self.path = path
        self.manifest = manifest
        self.schema = manifest.schema
        self.fingerprint = manifest.fingerprint
        self._fields = {field.name: field for field in manifest.schema.fields}
        self._sources = _sources(manifest)
        self._files = ColumnFiles(path, manifest, max_maps, self._sources)
        self._local = threading.local()
        self._last: tuple[int, Row] | None = None

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.manifest.rows

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the maps; existing views stay valid. Idempotent."""
        self._last = None
        self._files.close()
        if self._sources is not None:
            self._sources.close()

    def size(self, field: str, id: int) -> tuple[int, int]:  # noqa: A002 - the glossary's word
        """Return (height, width) of an image or mask after EXIF orientation, without reading it.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size, or there is no such id.
        """
        self._picture(field)
        row = self._row(id)
        return row.number_of(f"{field}.height"), row.number_of(f"{field}.width")

    def sizes(self, field: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (widths, heights) of an image or mask in the order of ids, file by file.

        They equal those of `size`: read-only views of the files; no image is read.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size.
        """
        self._picture(field)
        for file in self.manifest.files:
            columns = self._files.row(file.first_row).columns
            wide, high = columns[f"{field}.width"], columns[f"{field}.height"]
            assert isinstance(wide, FixedColumn)
            assert isinstance(high, FixedColumn)
            yield wide.items, high.items

    def lengths(self, field: str) -> Iterator[np.ndarray]:
        """Yield the lengths of a field in the order of ids, file by file.

        No value is read: lengths follow from offsets. The value of an integer field is the length
        itself.

        Args:
            field: an array, of which the first side counts, bytes, boxes or keypoints; or an
                integer label or scalar.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no length.
        """
        spec = self._field(field)
        inner = math.prod(side or 1 for side in spec.shape[1:])
        if spec.is_picture or not (spec.shape or np.dtype(spec.dtype).kind in "iu"):
            raise UsageError(
                f"field {field!r} of dataset {self.path} ({spec.kind} {spec.dtype}) has no length: "
                "expected an array, bytes, boxes, keypoints, or an integer that is a length"
            )
        for file in self.manifest.files:
            column = self._files.row(file.first_row).columns[field]
            if isinstance(column, VariableColumn):
                yield np.diff(column.offsets) // inner
            elif isinstance(column, ReferenceColumn):
                yield column.sizes_bytes() // (np.dtype(spec.dtype).itemsize * inner)
            else:
                items = column.items
                yield np.full(len(items), spec.shape[0]) if spec.shape else items

    def orientation(self, field: str, id: int) -> int:  # noqa: A002
        """Return the EXIF orientation (1..8) of the stored bytes of an image or mask.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size, or there is no such id.
        """
        spec = self._picture(field)
        row = self._row(id)
        return 1 if spec.encoding in UPRIGHT else row.number_of(f"{field}.orientation")

    def read(self, field: str, id: int) -> memoryview | np.ndarray | np.generic:  # noqa: A002
        """Return a field in its stored form, without a copy.

        Returns:
            The file's bytes (encoded images, masks, and bytes), an array (raw images (H, W, C), raw
            masks (H, W), arrays), or a NumPy scalar (label, scalar). All read-only.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id.
            SampleError: the file's own offsets or sizes are damaged.
        """
        spec = self._field(field)
        row = self._row(id)
        column = row.columns[field]
        if isinstance(column, FixedColumn):
            item: np.ndarray | np.generic = column.items[row.number]
            return item.astype(np.bool_) if spec.dtype == "bool" else item
        data = self._item(field, id, column, row)
        if spec.kind == "bytes" or (spec.is_picture and spec.encoding != "raw"):
            return data
        if spec.is_picture:
            return self._raw_picture(spec, data, id)
        return self._ragged(spec, data, id)

    def reference(self, field: str, id: int) -> bytes:  # noqa: A002
        """Return the reference that an index holds for a field, 16 bytes.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id, or the field's values are in the dataset itself.
        """
        row = self._row(id)
        column = row.columns[self._field(field).name]
        if not isinstance(column, ReferenceColumn):
            raise UsageError(
                f"field {field!r} of dataset {self.path} holds values, not references; use read()"
            )
        return bytes(column.items[row.number].tobytes())

    def decode(self, field: str, id: int, out: np.ndarray) -> np.ndarray:  # noqa: A002
        """Decode an image or mask, upright, into the caller's memory.

        Args:
            field: an image or mask.
            id: the sample's id.
            out: flat, contiguous, writable uint8 array with at least as many bytes as the pixels.

        Returns:
            A contiguous view of `out`: (H, W, C) for images, (H, W) for masks.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, there is no such id, or `out` is too
                small.
            SampleError: the stored bytes are damaged; details name dataset, id, field, file,
                offset and reason.
        """
        spec = self._picture(field)
        size, turn = self._checked_size(spec, id)
        needed = self._check_memory(spec, id, size, out)
        data = self.read(field, id)
        if isinstance(data, np.ndarray):
            target = out[:needed].view(data.dtype).reshape(data.shape)
            np.copyto(target, data)
            return target
        assert isinstance(data, memoryview)
        try:
            if spec.encoding == "bands":
                picture = out[:needed].view(spec.dtype).reshape(*size, *spec.shape[2:])
                decode_bands(data, picture)
                return picture
            return decode_picture(data, spec.kind, size, turn, out, self._scratch().turned)
        except CodecError as error:
            raise self._sample_error(field, id, f"cannot decode it: {error}") from None

    def decode_box(
        self,
        field: str,
        id: int,  # noqa: A002
        box: tuple[int, int, int, int],
        out: np.ndarray,
    ) -> np.ndarray:
        """Decode a box of an image or mask to its place in the caller's memory.

        Outside of the box the pixels are undefined. Data in bands and a JPEG with a grid are
        decoded only as far as needed; anything else is decoded whole.

        Args:
            field: an image or mask.
            id: the sample's id.
            box: (top, left, height, width) in pixels of the upright image, inside it.
            out: as for `decode`.

        Returns:
            As `decode`: the view of the whole image.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: as for `decode`, or the box is not inside the image.
            SampleError: as for `decode`.
        """
        spec = self._picture(field)
        grid = self.grid(field, id)
        if grid is None and spec.encoding != "bands":
            return self.decode(field, id, out)
        size, turn = self._checked_size(spec, id)
        needed = self._check_memory(spec, id, size, out)
        top, left, height, width = box
        if not (0 <= top < top + height <= size[0] and 0 <= left < left + width <= size[1]):
            raise UsageError(
                f"field {field!r} of id {id}: expected a box inside its {size[0]}x{size[1]} "
                f"pixels, got {box}"
            )
        data = self.read(field, id)
        assert isinstance(data, memoryview)
        target = out[:needed].view(spec.dtype).reshape(*size, *spec.shape[2:])
        try:
            if grid is None:
                decode_bands(data, target, box)
                return target
            done = decode_boxed(data, grid, size, turn, box, target, self._scratch())
        except CodecError as error:
            raise self._sample_error(field, id, f"cannot decode it: {error}") from None
        return target if done else self.decode(field, id, out)

    def grid(self, field: str, id: int) -> memoryview | None:  # noqa: A002
        """Return the grid of an image as bytes of a side column; None if it has none.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, or there is no such id.
            SampleError: the grid is damaged.
        """
        spec = self._picture(field)
        if spec.grid_column is None:
            return None
        row = self._row(id)
        grids = row.columns[spec.grid_column]
        assert isinstance(grids, VariableColumn)
        return self._item(field, id, grids, row) or None

    def check_grid(self, field: str, id: int) -> None:  # noqa: A002
        """Check that the grid of an image, if it has one, belongs to its file.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, or there is no such id.
            SampleError: the grid is damaged.
        """
        grid, data = self.grid(field, id), self.read(field, id)
        if grid is None:
            return
        assert isinstance(data, memoryview)
        size, turn = self._checked_size(self._picture(field), id)
        try:
            self._scratch().splicer.check(data, grid, upright_size(*size, turn))
        except CodecError as error:
            raise self._sample_error(field, id, str(error)) from None

    def sizes_of(self, field: str, ids: np.ndarray) -> np.ndarray:
        """Return the sizes of a field of many samples, without reading it.

        Args:
            field: an image or mask, or a field whose first side differs between rows.
            ids: (n,) int64, each at least 0 and less than the number of samples.

        Returns:
            (n, 2) int64: height and width after EXIF orientation; for other fields the first side,
            and 1.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has one size, which is in its schema.
        """
        spec = self._field(field)
        found = np.ones((len(ids), 2), np.int64)
        for places, rows, columns in self._files.by_file(ids):
            if spec.is_picture:
                for side, name in enumerate(("height", "width")):
                    column = columns[f"{field}.{name}"]
                    assert isinstance(column, FixedColumn)
                    found[places, side] = column.items[rows]
                continue
            column = columns[field]
            if not isinstance(column, VariableColumn):
                raise UsageError(
                    f"field {field!r} has shape {spec.shape} in every sample; use its schema"
                )
            inner = math.prod(side or 1 for side in spec.shape[1:])
            found[places, 0] = (column.offsets[rows + 1] - column.offsets[rows]) // inner
        return found

    def alike(self, fields: Sequence[str]) -> AlikeFields | None:
        """Return an object that finds many samples at once, for code that reads them in place.

        Returns:
            None unless all these fields are stored in the form in which they are used, with one
            shape.

        Raises:
            UnknownNameError: there is no such field.
        """
        found = [self._field(name) for name in fields]
        if not all(is_alike(field) for field in found):
            return None
        return AlikeFields(self._files, [file.first_row for file in self.manifest.files], found)

    def gather(self, field: str, ids: np.ndarray, out: np.ndarray) -> bool:
        """Copy the numbers or arrays of many samples at once, if all have one shape.

        Args:
            field: a field of numbers or arrays.
            ids: (n,) int64, each at least 0 and less than the number of samples.
            out: (n, ...) of the field's dtype and shape.

        Returns:
            False if they are not stored that way: read them one by one.

        Raises:
            UnknownNameError: there is no such field.
        """
        spec = self._field(field)
        if not is_alike(spec) or spec.is_picture:
            return False
        for places, rows, columns in self._files.by_file(ids):
            column = columns[field]
            assert isinstance(column, FixedColumn)
            out[places] = column.items[rows]
        return True

    def will_need(self, fields: Sequence[str], ids: np.ndarray) -> None:
        """Start to read the bytes of samples from storage, without waiting for them.

        Args:
            fields: fields of any kind; those with small items of equal size are skipped.
            ids: (n,) int64, each at least 0 and less than the number of samples.

        Raises:
            UnknownNameError: there is no such field.
        """
        names = [name for name in fields if self._field(name)]
        for _, rows, columns in self._files.by_file(ids):
            for name in names:
                column = columns[name]
                if isinstance(column, VariableColumn):
                    for row in rows.tolist():
                        with contextlib.suppress(ValueError):  # reading it will raise
                            will_need(column.item(row))
                elif isinstance(column, ReferenceColumn):
                    for row in rows.tolist():
                        with contextlib.suppress(ValueError, DatasetError):
                            column.will_need(row)

    def source(self, id: int) -> str | None:  # noqa: A002
        """Return the path of the sample's original file, if the dataset has it.

        Raises:
            UsageError: there is no such id.
            SampleError: the file's own offsets are damaged.
        """
        row = self._row(id)
        column = row.columns.get(SOURCE)
        if not isinstance(column, VariableColumn):
            return None
        return bytes(self._item(SOURCE, id, column, row)).decode(errors="replace")

    def digest(self, id: int) -> bytes:  # noqa: A002
        """Return the digest of the sample's content from packing, 16 bytes.

        Raises:
            UsageError: there is no such id.
        """
        row = self._row(id)
        column = row.columns[DIGEST]
        assert isinstance(column, FixedColumn)
        return bytes(column.items[row.number])

    def locate(self, field: str, id: int) -> tuple[DataFile, int]:  # noqa: A002
        """Return the file that holds a sample's field, and its offset there in bytes.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id.
        """
        if field != SOURCE:
            self._field(field)
        row = self._row(id)
        return row.file, row.columns[field].place(row.number)

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
                f"field {name!r} has kind {field.kind}, but only an image or mask has a height and "
                "width and can be decoded; use read()"
            )
        return field

    def _row(self, id: int) -> Row:  # noqa: A002
        if not 0 <= id < self.manifest.rows:
            raise UsageError(f"dataset {self.path} has ids 0 to {self.manifest.rows - 1}, got {id}")
        last = self._last  # the fields of a sample are read one after the other
        if last is None or last[0] != id:
            self._last = last = (id, self._files.row(id))
        return last[1]

    def _item(
        self,
        name: str,
        id: int,  # noqa: A002
        column: VariableColumn | ReferenceColumn,
        row: Row,
    ) -> memoryview:
        try:
            return column.item(row.number)
        except ValueError as error:
            raise self._sample_error(name, id, str(error)) from None

    def _checked_size(self, spec: Field, id: int) -> tuple[tuple[int, int], int]:  # noqa: A002
        """Return size and orientation after checks, because the file may be damaged."""
        size, turn = self.size(spec.name, id), self.orientation(spec.name, id)
        fits = 1 <= size[0] <= spec.bound[0] and 1 <= size[1] <= spec.bound[1]
        if not fits or not 1 <= turn <= 8:
            what = f"its size {size[0]}x{size[1]} or orientation {turn} is damaged"
            raise self._sample_error(spec.name, id, what)
        return size, turn

    def _raw_picture(self, spec: Field, data: memoryview, id: int) -> np.ndarray:  # noqa: A002
        size, _ = self._checked_size(spec, id)
        if size[0] * size[1] * _pixel_bytes(spec) != len(data):
            what = f"expected an image of {size[0]}x{size[1]} pixels, got {len(data)} bytes"
            raise self._sample_error(spec.name, id, what)
        return np.frombuffer(data, spec.dtype).reshape(*size, *spec.shape[2:])

    def _ragged(self, spec: Field, data: memoryview, id: int) -> np.ndarray:  # noqa: A002
        inner = [side or 1 for side in spec.shape[1:]]
        items = np.frombuffer(data, np.uint8 if spec.dtype == "bool" else spec.dtype)
        count, rest = divmod(items.size, math.prod(inner))
        if rest or count > spec.bound[0] or spec.shape[0] not in (None, count):
            want = f"{spec.shape} up to {spec.bound}"
            what = f"expected an array of shape {want}, got {items.size} numbers"
            raise self._sample_error(spec.name, id, what)
        shaped = items.reshape(count, *inner)
        return shaped.astype(np.bool_) if spec.dtype == "bool" else shaped

    def _check_memory(
        self,
        spec: Field,
        id: int,  # noqa: A002
        size: tuple[int, int],
        out: np.ndarray,
    ) -> int:
        """Return the bytes that an image or mask needs; raise if `out` has fewer."""
        needed = size[0] * size[1] * _pixel_bytes(spec)
        flat = out.dtype == np.uint8 and out.ndim == 1 and out.flags.c_contiguous
        if not flat or out.size < needed:
            raise UsageError(
                f"field {spec.name!r} of id {id}: expected flat, contiguous uint8 memory of at "
                f"least {needed} bytes, got {out.dtype} of shape {out.shape}"
            )
        return needed

    def _scratch(self) -> BoxScratch:
        scratch: BoxScratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = BoxScratch()
        return scratch

    def _sample_error(self, field: str, id: int, what: str) -> SampleError:  # noqa: A002
        file, offset = self._whereabouts(field, id)
        return SampleError(
            f"dataset {self.path}, id {id}, field {field!r} ({file}, byte {offset}): {what}; "
            f"check the dataset with `stoker verify {self.path}`",
            dataset=str(self.path),
            id=int(id),
            field=field,
            file=file,
            offset=offset,
            reason=what,
        )

    def _whereabouts(self, field: str, id: int) -> tuple[str, int]:  # noqa: A002
        """Return the file that holds a value, and its offset there in bytes."""
        row = self._row(id)
        column = row.columns[field]
        if isinstance(column, ReferenceColumn):
            with contextlib.suppress(ValueError):  # a damaged reference is in the index
                return column.file_name(row.number), column.place(row.number)
            return row.file.name, 0
        return row.file.name, column.place(row.number)


def _pixel_bytes(spec: Field) -> int:
    """Return the bytes per pixel of an image or mask."""
    return np.dtype(spec.dtype).itemsize * math.prod(side or 1 for side in spec.shape[2:])


def _sources(manifest: Manifest) -> SourceFiles | None:
    if manifest.source is UNSET:
        return None
    return SourceFiles(Path(manifest.source.root), manifest.source.files)
