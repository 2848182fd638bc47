"""FFCV's .beton files, format version 2 (ffcv 0.0.4 to 1.0): the tables with the places of values.

A file is: a header, a descriptor per field (type, name, arguments), the **metadata** (one record
per sample with a part for each field), pages of data, and at the end the **allocation table**: for
each run of data its sample, place and size. Numbers are in the metadata itself; images, arrays and
bytes are in the pages, and the metadata points to them. Images are JPEGs or raw pixels (height,
width, 3).

All of it is little-endian. Nothing is trusted: tables must be within the file, and every run that
is read must be in the allocation table.

Source: https://github.com/libffcv/ffcv, ffcv/types.py, ffcv/writer.py and ffcv/fields, v1.0.0.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.limits import MAX_FILE_BYTES, CodecError

VERSION = 2
JPEG, RAW = 0, 1
HEADER = np.dtype(
    [
        ("version", "<u2"),
        ("fields", "<u2"),
        ("page_bytes", "<u4"),
        ("samples", "<u8"),
        ("table", "<u8"),
    ]
)
DESCRIPTOR = np.dtype([("type", "u1"), ("name", "S16"), ("arguments", "V1024")])
ALLOCATION = np.dtype([("sample", "<u8"), ("place", "<u8"), ("size", "<u8")])
_IMAGE = np.dtype([("mode", "u1"), ("width", "<u2"), ("height", "<u2"), ("place", "<u8")])
_RUN = np.dtype([("place", "<u8"), ("size", "<u8")])
_ARRAY_ARGUMENTS = np.dtype([("shape", "<u8", 32), ("dtype_bytes", "<u8")])
_TYPES = {
    0: ("float", np.dtype("<f8")),
    1: ("int", np.dtype("<i8")),
    2: ("image", _IMAGE),
    3: ("bytes", _RUN),
    4: ("array", np.dtype("<u8")),
    5: ("json", _RUN),
    6: ("array", np.dtype("<u8")),
}
_MAX_FIELDS = 256


class BetonField(NamedTuple):
    """A field: its name, its type, and for arrays their dtype and shape."""

    name: str
    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()


class Beton:
    """An open file.

    Attributes:
        fields: in order.
        samples: number of samples.
        metadata: (samples,) records; the part of field i is named `f{i}`.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a file and read its tables.

        Raises:
            CodecError: it is not a .beton file of version 2, or is damaged.
            OSError: it cannot be read.
        """
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._end = os.fstat(self._descriptor).st_size
            header = self._read(HEADER, 0, 1, "its header")[0]
            if header["version"] != VERSION or not 1 <= header["fields"] <= _MAX_FIELDS:
                raise CodecError(
                    f"expected a .beton file of format version {VERSION}, got version "
                    f"{header['version']} with {header['fields']} fields"
                )
            count, place = int(header["fields"]), HEADER.itemsize
            described = self._read(DESCRIPTOR, place, count, "its fields")
            self.fields = tuple(_field(record) for record in described)
            parts = [_TYPES[int(record["type"])][1] for record in described]
            # The writer aligns the parts of a record as in C; a struct in it is packed.
            record = np.dtype([("", part) for part in parts], align=True)
            self.samples = int(header["samples"])
            place += described.nbytes
            self.metadata = self._read(record, place, self.samples, "its metadata")
            self._runs = self._allocations(int(header["table"]))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def data(self, place: int) -> bytes:
        """Return the run of data that starts at an offset in bytes.

        Raises:
            CodecError: there is no such run, or it is not within the file.
        """
        at = int(np.searchsorted(self._runs["place"], place, side="right")) - 1
        if at < 0 or int(self._runs["place"][at]) != place:
            raise CodecError(f"its data should be at byte {place}, where none was written")
        size = int(self._runs["size"][at])
        if place + size > self._end or size > MAX_FILE_BYTES:
            raise CodecError(f"its data, {size} bytes at {place}, is not within the file")
        data = os.pread(self._descriptor, size, place)
        if len(data) != size:
            raise CodecError(f"the file ends within its data, {size} bytes at {place}")
        return data

    def sizes(self) -> np.ndarray:
        """Return the bytes of data of each sample, (samples,) int64."""
        runs = self._runs[self._runs["sample"] < self.samples]
        sizes = np.minimum(runs["size"], self._end).astype(np.float64)
        found = np.bincount(runs["sample"].astype(np.int64), sizes, minlength=self.samples)
        return found.astype(np.int64) + self.metadata.dtype.itemsize

    def _read(self, dtype: np.dtype, place: int, count: int, what: str) -> np.ndarray:
        size = dtype.itemsize * count
        if place + size > self._end:
            raise CodecError(
                f"{what} would end at byte {place + size}, but the file has only {self._end}: it "
                "is not a .beton file, or its writer was interrupted"
            )
        return np.frombuffer(os.pread(self._descriptor, size, place), dtype)

    def _allocations(self, place: int) -> np.ndarray:
        """Return the allocation table, sorted by place, with empty runs first."""
        length = self._end - place
        if place < HEADER.itemsize or length < 0 or length % ALLOCATION.itemsize:
            raise CodecError(
                f"its allocation table should start at byte {place} of {self._end}: its writer "
                "was interrupted, or it is damaged"
            )
        table = self._read(ALLOCATION, place, length // ALLOCATION.itemsize, "its allocation table")
        return table[np.lexsort((table["size"], table["place"]))]


def _field(record: np.void) -> BetonField:
    name = bytes(record["name"]).decode("ascii", errors="replace")
    if int(record["type"]) not in _TYPES:
        raise CodecError(
            f"its field {name!r} has type {record['type']}, a custom field that "
            "only the writer's code can read; expected one of "
            f"{', '.join(sorted({kind for kind, _ in _TYPES.values()}))}"
        )
    kind, _ = _TYPES[int(record["type"])]
    if kind != "array":
        return BetonField(name, kind)
    arguments = bytes(record["arguments"])
    head = np.frombuffer(arguments[: _ARRAY_ARGUMENTS.itemsize], _ARRAY_ARGUMENTS)[0]
    text = arguments[_ARRAY_ARGUMENTS.itemsize :][: int(head["dtype_bytes"])]
    try:
        ((_, code),) = json.loads(text)
        dtype = np.dtype(str(code))
    except (ValueError, TypeError, SyntaxError, RecursionError) as error:
        raise CodecError(f"its field {name!r} has an unreadable dtype: {error}") from None
    sides = head["shape"].tolist()
    shape = tuple(sides[: 32 - next(i for i, side in enumerate([*sides[::-1], 1]) if side)])
    if dtype.name not in ITEM_BYTES or not all(1 <= side < 2**31 for side in shape):
        raise CodecError(f"its field {name!r} : expected arrays of numbers, got {dtype} {shape}")
    return BetonField(name, kind, dtype.str, shape)
