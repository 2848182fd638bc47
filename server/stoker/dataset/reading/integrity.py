"""Whether a stored row is what was packed: its digest, and what the digest does not cover.

The digest of a row covers the values of its fields. The size and orientation of an encoded image
are in side columns, so they are compared with the image's own header, and a grid with its file. The
size of raw pixels and bands is part of the digest. Of a source read in place, the digest covers the
reference to a value, not the value. Runs in workers (`integrity = "rows"`) and for `verify`.
"""

import struct
import threading

import numpy as np

from stoker.dataset.format.cells import Cell
from stoker.dataset.format.fields import UPRIGHT, Field
from stoker.dataset.format.fingerprint import row_digest
from stoker.dataset.images.peek import peek_picture
from stoker.dataset.limits import CodecError
from stoker.dataset.reading.dataset import Dataset
from stoker.protocol.errors import SampleError

CHANGED = "its content no longer has the digest that it was packed with"


class RowCheck:
    """Checks rows before they are used; threads may share it."""

    def __init__(self, dataset: Dataset) -> None:
        """Prepare to check rows of an open dataset."""
        self._dataset = dataset
        self._bands_bytes = max(
            (f.bound_bytes for f in dataset.schema.fields if f.encoding == "bands"), default=0
        )
        self._own = threading.local()

    def __call__(self, sample_id: int) -> None:
        """Check a row; the row that was checked last is not read again.

        Raises:
            SampleError: its bytes are not those that were packed.
            UsageError: there is no such id.
        """
        if getattr(self._own, "last", None) == sample_id:
            return
        self._own.last = None
        dataset, cells = self._dataset, []
        for field in dataset.schema.fields:
            cells.append(stored_cell(dataset, field, sample_id, self._bands()))
            if field.is_picture and not field.referenced and field.encoding not in UPRIGHT:
                check_sides(dataset, field, sample_id)
                dataset.check_grid(field.name, sample_id)
        if row_digest(cells) != dataset.digest(sample_id):
            raise _changed(dataset, sample_id)
        self._own.last = sample_id

    def _bands(self) -> np.ndarray:
        """Return this thread's memory for the pixels of bands."""
        memory: np.ndarray | None = getattr(self._own, "memory", None)
        if memory is None:
            memory = self._own.memory = np.empty(self._bands_bytes, np.uint8)
        return memory


def stored_cell(dataset: Dataset, field: Field, sample_id: int, out: np.ndarray) -> Cell:
    """Return a stored value as it was hashed when it was packed.

    Args:
        dataset: an open dataset.
        field: one of its fields.
        sample_id: the sample's id.
        out: flat uint8 memory for the pixels of bands.

    Raises:
        SampleError: it cannot be read.
    """
    if field.referenced:
        return Cell(dataset.reference(field.name, sample_id))
    value = dataset.read(field.name, sample_id)
    if isinstance(value, memoryview):
        if field.encoding != "bands":
            return Cell(value)
        pixels = dataset.decode(field.name, sample_id, out)
        prefix = struct.pack("<II", *pixels.shape[:2])
        return Cell(value, prefix=prefix, content=pixels.tobytes())
    prefix = struct.pack("<II", *value.shape[:2]) if field.is_picture else b""
    return Cell(value.tobytes(), prefix=prefix)


def check_sides(dataset: Dataset, field: Field, sample_id: int) -> None:
    """Compare the size and orientation of an encoded image with its header.

    Raises:
        SampleError: they differ, or the header is damaged.
    """
    if field.encoding in UPRIGHT:
        return
    data = dataset.read(field.name, sample_id)
    assert isinstance(data, memoryview)
    keep = bool(field.keeps_orientation)
    try:
        seen = peek_picture(len(data), field.kind, lambda size: bytes(data[:size]), keep)
    except CodecError as error:
        raise dataset.sample_error(field.name, sample_id, f"cannot decode it: {error}") from None
    size, turn = dataset.size(field.name, sample_id), dataset.orientation(field.name, sample_id)
    if (*size, turn) != seen[1:]:
        what = (
            f"its size {size[0]}x{size[1]} or orientation {turn} is damaged: the image has "
            f"{seen.height}x{seen.width} pixels and orientation {seen.orientation}"
        )
        raise dataset.sample_error(field.name, sample_id, what)


def _changed(dataset: Dataset, sample_id: int) -> SampleError:
    file, _ = dataset.locate(dataset.schema.fields[0].name, sample_id)
    return SampleError(
        f"dataset {dataset.path}, id {sample_id} ({file.name}): {CHANGED}, so bytes of it have "
        f"changed on the disk or in memory; check the dataset with `stoker verify {dataset.path}`",
        dataset=str(dataset.path),
        id=int(sample_id),
        field="",
        file=file.name,
        reason=CHANGED,
    )
