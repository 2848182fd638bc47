"""Stored samples by id: where their bytes are, and what is known of them before decoding.

`PackedDataset` (packed.py) reads mapped files, `LiveDataset` (live.py) asks a user-defined class.
Imports no pyarrow, numba or torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest import Manifest, StoredFile
from stoker.dataset.reading.uniform_fields import UniformFields
from stoker.protocol.errors import SampleError, UnknownNameError, UsageError


class StoredSamples(ABC):
    """Samples by id, as they are stored.

    Attributes:
        path: its folder, or the name of a live source.
        manifest: its manifest.
        schema: its fields.
        fingerprint: `content:<32 hex digits>`.
        check_row: checks a row before it is used, by its id; None: rows are not checked.
        has_checks: whether each row is stored with a check (`format.row_check`).
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.check_row: Callable[[int], None] | None = None
        self.has_checks = False
        self.manifest = manifest
        self.schema = manifest.schema
        self.fingerprint = manifest.fingerprint
        self._fields = {field.name: field for field in manifest.schema.fields}

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.manifest.rows

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
            SampleError: the file's own offsets are damaged.
        """

    @abstractmethod
    def numbers(self, field: str) -> Iterator[np.ndarray]:
        """Yield the values of a field of one number per sample in the order of ids, file by file.

        Args:
            field: a label or scalar.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not one number, or is not stored.
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
        """Return the grid of an image as bytes of a side column; None for an image without one.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, or there is no such id.
            SampleError: the grid is damaged.
        """

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
    def alike(self, fields: Sequence[str]) -> UniformFields | None:
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
    def is_intact(self, sample_id: int) -> bool:
        """Return whether the stored bytes of a sample have the check that they were packed with.

        Only for datasets with `has_checks`. Of a source read in place the check covers the
        reference to a value, not the value.

        Raises:
            UsageError: there is no such id.
        """

    @abstractmethod
    def locate(self, field: str, sample_id: int) -> tuple[StoredFile, int]:
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

    def sample_error(self, field: str, sample_id: int, what: str) -> SampleError:
        """Return the error of a damaged value, which names its file and what is wrong."""
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
