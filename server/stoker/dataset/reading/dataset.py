"""The interface of every dataset: samples by id, sizes before decoding, decoded images.

`PackedDataset` (packed.py) reads mapped files, `LiveDataset` (live.py) asks a user-defined class;
both share the decoding here. Runs in workers and in user processes, also after a fork; threads may
share a Dataset. Imports no pyarrow, numba or torch.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from stoker.dataset.format.manifest import DataFile, Manifest
from stoker.dataset.format.schema import Field
from stoker.dataset.images.bands import decode_bands
from stoker.dataset.images.boxed import BoxScratch, decode_boxed
from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.images.orientation import upright_size
from stoker.dataset.limits import CodecError
from stoker.dataset.reading.alike import AlikeFields
from stoker.dataset.reading.memory import pixel_bytes, require_memory
from stoker.protocol.errors import SampleError, UnknownNameError, UsageError


class Dataset(ABC):
    """A read-only, indexable collection of samples; made by `stoker.dataset.open_dataset`.

    Attributes:
        path: its folder, or the name of a live source.
        manifest: its manifest.
        schema: its fields.
        fingerprint: `content:<32 hex digits>`.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.schema = manifest.schema
        self.fingerprint = manifest.fingerprint
        self._fields = {field.name: field for field in manifest.schema.fields}
        self._local = threading.local()

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.manifest.rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the files; existing views stay valid. Idempotent."""

    @abstractmethod
    def size(self, field: str, sample_id: int) -> tuple[int, int]:
        """Return (height, width) of an image or mask after EXIF orientation, without reading it.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size, or there is no such id.
        """

    @abstractmethod
    def sizes(self, field: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (widths, heights) of an image or mask in the order of ids, file by file.

        They equal those of `size`: read-only views of the files; no image is read.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size.
        """

    @abstractmethod
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

    @abstractmethod
    def orientation(self, field: str, sample_id: int) -> int:
        """Return the EXIF orientation (1..8) of the stored bytes of an image or mask.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field has no size, or there is no such id.
        """

    @abstractmethod
    def read(self, field: str, sample_id: int) -> memoryview | np.ndarray | np.generic:
        """Return a field in its stored form, without a copy.

        Returns:
            The file's bytes (encoded images, masks, and bytes), an array (raw images (H, W, C), raw
            masks (H, W), arrays), or a NumPy scalar (label, scalar). All read-only.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id.
            SampleError: the file's own offsets or sizes are damaged.
        """

    @abstractmethod
    def reference(self, field: str, sample_id: int) -> bytes:
        """Return the reference that an index holds for a field, 16 bytes.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id, or the field's values are in the dataset itself.
        """

    @abstractmethod
    def grid(self, field: str, sample_id: int) -> memoryview | None:
        """Return the grid of an image as bytes of a side column; None if it has none.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, or there is no such id.
            SampleError: the grid is damaged.
        """

    def decode(self, field: str, sample_id: int, out: np.ndarray) -> np.ndarray:
        """Decode an image or mask, upright, into the caller's memory.

        Args:
            field: an image or mask.
            sample_id: the sample's id.
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
        size, turn = self._checked_size(spec, sample_id)
        needed = require_memory(spec, sample_id, size, out)
        data = self.read(field, sample_id)
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
            raise self._sample_error(field, sample_id, f"cannot decode it: {error}") from None

    def decode_box(
        self,
        field: str,
        sample_id: int,
        box: tuple[int, int, int, int],
        out: np.ndarray,
    ) -> np.ndarray:
        """Decode a box of an image or mask to its place in the caller's memory.

        Outside of the box the pixels are undefined. Data in bands and a JPEG with a grid are
        decoded only as far as needed; anything else is decoded whole.

        Args:
            field: an image or mask.
            sample_id: the sample's id.
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
        grid = self.grid(field, sample_id)
        if grid is None and spec.encoding != "bands":
            return self.decode(field, sample_id, out)
        size, turn = self._checked_size(spec, sample_id)
        needed = require_memory(spec, sample_id, size, out)
        top, left, height, width = box
        if not (0 <= top < top + height <= size[0] and 0 <= left < left + width <= size[1]):
            raise UsageError(
                f"field {field!r} of id {sample_id}: expected a box inside its {size[0]}x{size[1]} "
                f"pixels, got {box}"
            )
        data = self.read(field, sample_id)
        assert isinstance(data, memoryview)
        target = out[:needed].view(spec.dtype).reshape(*size, *spec.shape[2:])
        try:
            if grid is None:
                decode_bands(data, target, box)
                return target
            done = decode_boxed(data, grid, size, turn, box, target, self._scratch())
        except CodecError as error:
            raise self._sample_error(field, sample_id, f"cannot decode it: {error}") from None
        return target if done else self.decode(field, sample_id, out)

    def check_grid(self, field: str, sample_id: int) -> None:
        """Check that the grid of an image, if it has one, belongs to its file.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, or there is no such id.
            SampleError: the grid is damaged.
        """
        grid, data = self.grid(field, sample_id), self.read(field, sample_id)
        if grid is None:
            return
        assert isinstance(data, memoryview)
        size, turn = self._checked_size(self._picture(field), sample_id)
        try:
            self._scratch().splicer.check(data, grid, upright_size(*size, turn))
        except CodecError as error:
            raise self._sample_error(field, sample_id, str(error)) from None

    @abstractmethod
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

    @abstractmethod
    def alike(self, fields: Sequence[str]) -> AlikeFields | None:
        """Return an object that finds many samples at once, for code that reads them in place.

        Returns:
            None unless all these fields are stored in the form in which they are used, with one
            shape.

        Raises:
            UnknownNameError: there is no such field.
        """

    @abstractmethod
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

    @abstractmethod
    def will_need(self, fields: Sequence[str], ids: np.ndarray) -> None:
        """Start to read the bytes of samples from storage, without waiting for them.

        Args:
            fields: fields of any kind; those with small items of equal size are skipped.
            ids: (n,) int64, each at least 0 and less than the number of samples.

        Raises:
            UnknownNameError: there is no such field.
        """

    @abstractmethod
    def source(self, sample_id: int) -> str | None:
        """Return the path of the sample's original file, if the dataset has it.

        Raises:
            UsageError: there is no such id.
            SampleError: the file's own offsets are damaged.
        """

    @abstractmethod
    def digest(self, sample_id: int) -> bytes:
        """Return the digest of the sample's content from packing, 16 bytes.

        Raises:
            UsageError: there is no such id.
        """

    @abstractmethod
    def locate(self, field: str, sample_id: int) -> tuple[DataFile, int]:
        """Return the file that holds a sample's field, and its offset there in bytes.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: there is no such id.
        """

    @abstractmethod
    def _whereabouts(self, field: str, sample_id: int) -> tuple[str, int]:
        """Return the file that holds a value, and the byte at which it begins there."""

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

    def _checked_size(self, spec: Field, sample_id: int) -> tuple[tuple[int, int], int]:
        """Return size and orientation after checks, because the file may be damaged."""
        size, turn = self.size(spec.name, sample_id), self.orientation(spec.name, sample_id)
        fits = 1 <= size[0] <= spec.bound[0] and 1 <= size[1] <= spec.bound[1]
        if not fits or not 1 <= turn <= 8:
            what = f"its size {size[0]}x{size[1]} or orientation {turn} is damaged"
            raise self._sample_error(spec.name, sample_id, what)
        return size, turn

    def _raw_picture(self, spec: Field, data: memoryview, sample_id: int) -> np.ndarray:
        size, _ = self._checked_size(spec, sample_id)
        if size[0] * size[1] * pixel_bytes(spec) != len(data):
            what = f"expected an image of {size[0]}x{size[1]} pixels, got {len(data)} bytes"
            raise self._sample_error(spec.name, sample_id, what)
        return np.frombuffer(data, spec.dtype).reshape(*size, *spec.shape[2:])

    def _ragged(self, spec: Field, data: memoryview, sample_id: int) -> np.ndarray:
        inner = [side or 1 for side in spec.shape[1:]]
        items = np.frombuffer(data, np.uint8 if spec.dtype == "bool" else spec.dtype)
        count, rest = divmod(items.size, math.prod(inner))
        if rest or count > spec.bound[0] or spec.shape[0] not in (None, count):
            want = f"{spec.shape} up to {spec.bound}"
            what = f"expected an array of shape {want}, got {items.size} numbers"
            raise self._sample_error(spec.name, sample_id, what)
        shaped = items.reshape(count, *inner)
        return shaped.astype(np.bool_) if spec.dtype == "bool" else shaped

    def _scratch(self) -> BoxScratch:
        scratch: BoxScratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = BoxScratch()
        return scratch

    def _sample_error(self, field: str, sample_id: int, what: str) -> SampleError:
        file, offset = self._whereabouts(field, sample_id)
        return SampleError(
            f"dataset {self.path}, id {sample_id}, field {field!r} ({file}, byte {offset}): "
            f"{what}; check the dataset with `stoker verify {self.path}`",
            dataset=str(self.path),
            id=int(sample_id),
            field=field,
            file=file,
            offset=offset,
            reason=what,
        )
