"""Verify a range of rows: decode every image and compare every row's digest.

Runs in a worker process. A row is bad if a field cannot be read or decoded, if the size or
orientation stored for an image is not the image's, or if its content no longer has the digest or
the check that it was packed with.

The digest of a row covers the values of its fields. The size and orientation of an encoded image
are in side columns, so they are compared with the image's own header, and a grid with its file. The
size of raw pixels and bands is part of the digest. Of a source read in place, the digest covers the
reference to a value, not the value.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stoker.dataset.format.cells import Cell
from stoker.dataset.format.fields import UPRIGHT, Field
from stoker.dataset.format.fingerprint import row_digest
from stoker.dataset.images.header_size import HeaderSize, size_from_header
from stoker.dataset.images.jpeg.planes.plane_form import is_planes, jpeg_head
from stoker.dataset.images.orientation import find_orientation
from stoker.dataset.limits import CodecError
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.dataset.reading.packed import open_folder
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import SampleError

CHANGED = "its content no longer has the digest that it was packed with"
CHECK_CHANGED = "its stored check is damaged, but its content is not; pack the dataset again"


class RowsJob(msgspec.Struct, frozen=True):
    """Rows `start` to `stop` of the dataset at `path`; the first `limit` bad ones are listed."""

    path: str
    start: int
    stop: int
    limit: int


class BadRow(msgspec.Struct, frozen=True):
    """A bad row: its id, the field ("" for the whole row), the file it came from, the reason."""

    id: int
    field: str
    source: str
    reason: str


class RowsResult(msgspec.Struct, frozen=True):
    """The number of bad rows, and the first of them."""

    bad: int
    rows: list[BadRow]


def verify_rows(argument: Any, report: Callable[[int, int], None]) -> Any:
    """Verify rows; takes a `RowsJob` and returns a `RowsResult`, both in JSON form.

    Raises:
        DatasetError: the dataset cannot be opened.
    """
    job = msgspec.convert(argument, analyzed(RowsJob))
    found: list[BadRow] = []
    bad = 0
    with open_folder(Path(job.path)) as dataset:
        out = np.empty(_largest(dataset.schema.fields), np.uint8)
        for number in range(job.start, job.stop):
            faults, size_bytes = _faults(dataset, number, out)
            bad += bool(faults)
            found += faults[: max(0, job.limit - len(found))]
            report(1, size_bytes)
    return msgspec.to_builtins(RowsResult(bad, found))


def _largest(fields: tuple[Field, ...]) -> int:
    return max((field.bound_bytes for field in fields if field.is_picture), default=0)


def _faults(dataset: Dataset, number: int, out: np.ndarray) -> tuple[list[BadRow], int]:
    """Return the faults of a row, and the number of bytes that were checked."""
    faults: list[BadRow] = []
    cells: list[Cell] = []
    for field in dataset.schema.fields:
        try:
            cells.append(stored_cell(dataset, field, number, out))
            if field.is_picture and (field.referenced or field.encoding not in UPRIGHT):
                dataset.decode(field.name, number, out)
                check_sides(dataset, field, number)
                dataset.check_grid(field.name, number)
        except SampleError as error:
            faults.append(_bad(dataset, number, field.name, str(error.details["reason"])))
    if not faults and row_digest(cells) != dataset.digest(number):
        faults.append(_bad(dataset, number, "", CHANGED))
    if not faults and dataset.has_checks and not dataset.is_intact(number):
        faults.append(_bad(dataset, number, "", CHECK_CHANGED))
    return faults, sum(len(cell.data) for cell in cells)


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
    size, turn = dataset.size(field.name, sample_id), dataset.orientation(field.name, sample_id)
    try:
        if is_planes(data):  # decoding has compared the size
            seen = HeaderSize("jpeg", *size, 1 if keep else find_orientation(jpeg_head(data)))
        else:
            seen = size_from_header(len(data), field.kind, lambda size: bytes(data[:size]), keep)
    except CodecError as error:
        raise dataset.sample_error(field.name, sample_id, f"cannot decode it: {error}") from None
    if (*size, turn) != seen[1:]:
        what = (
            f"its size {size[0]}x{size[1]} or orientation {turn} is damaged: the image has "
            f"{seen.height}x{seen.width} pixels and orientation {seen.orientation}"
        )
        raise dataset.sample_error(field.name, sample_id, what)


def _bad(dataset: Dataset, number: int, field: str, reason: str) -> BadRow:
    try:
        source = dataset.source(number) or ""
    except SampleError:
        source = ""
    return BadRow(number, field, source, reason)
