"""Arrays on disk that have a row for each sample: .npy files, .npz archives, and plain bytes.

Only headers are read here, never with pickle. Members of an .npz that are stored as they are lie at
a known byte of it; compressed ones are inflated by the workers that read them.
"""

import math
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stoker.dataset.format.item import Container
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.inflate import DAMAGE
from stoker.dataset.sources.common.npy import HEADER_BYTES, NpyHeader, read_header
from stoker.dataset.sources.common.walk import look_at
from stoker.protocol.errors import UsageError

_LOCAL_HEADER = struct.Struct("<26xHH")


@dataclass(frozen=True)
class StoredArray:
    """An array of (rows, ...) that lies in a file.

    Attributes:
        name: of the file without its suffix, or of the member.
        container: what its rows are read from.
        rows: how many there are.
        offset: byte of the container at which the first begins.
    """

    name: str
    container: Container
    rows: int
    offset: int

    @property
    def dtype(self) -> str:
        """NumPy's name of the dtype."""
        return np.dtype(self.container.dtype).name

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.container.shape) * np.dtype(self.container.dtype).itemsize


def open_npy(root: Path, path: str) -> StoredArray:
    """Read the header of an .npy file.

    Raises:
        UsageError: it is none, or its rows do not lie one after the other.
    """
    file = look_at(root / path, path)
    try:
        with open(root / path, "rb") as stream:
            header = read_header(stream.read(HEADER_BYTES))
    except OSError as error:
        raise UsageError(f"cannot read {root / path}: {error.strerror}; check the path") from None
    except CodecError as error:
        raise UsageError(f"{root / path}: {error}") from None
    where = f"{root / path}"
    _check(where, header, file.size_bytes)
    container = Container(file, header.dtype.str, header.shape[1:])
    return StoredArray(Path(path).stem, container, header.shape[0], header.offset)


def open_npz(root: Path, path: str, ignored: frozenset[str]) -> list[StoredArray]:
    """Read the headers of an .npz archive's arrays, except those to be ignored.

    Raises:
        UsageError: it is none, or rows of an array do not lie one after the other.
    """
    file, found = look_at(root / path, path), []
    try:
        with zipfile.ZipFile(root / path) as archive, open(root / path, "rb") as stream:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in ignored:
                    continue
                where = f"{root / path}, array {name!r}"
                try:
                    with archive.open(info) as member:
                        header = read_header(member.read(HEADER_BYTES))
                except CodecError as error:
                    raise UsageError(f"{where}: {error}") from None
                _check(where, header, info.file_size)
                inflate = "" if info.compress_type == zipfile.ZIP_STORED else info.filename
                start = 0
                if not inflate:
                    stream.seek(info.header_offset)
                    lengths = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
                    start = info.header_offset + _LOCAL_HEADER.size + sum(lengths)
                container = Container(file, header.dtype.str, header.shape[1:], inflate)
                found.append(StoredArray(name, container, header.shape[0], start + header.offset))
    except OSError as error:
        raise UsageError(f"cannot read {root / path}: {error.strerror}; check the path") from None
    except DAMAGE as error:
        raise UsageError(f"{root / path} is no .npz archive that can be read: {error}") from None
    return found


def open_raw(root: Path, path: str, dtype: str, shape: tuple[int, ...]) -> StoredArray:
    """Take a file of plain bytes for an array, little-endian, row after row.

    Raises:
        UsageError: it cannot be read, or is no whole number of rows.
    """
    file = look_at(root / path, path)
    container = Container(file, np.dtype(dtype).newbyteorder("<").str, shape)
    found = StoredArray(Path(path).stem, container, 0, 0)
    rows, rest = divmod(file.size_bytes, found.row_bytes)
    if rest or not rows:
        raise UsageError(
            f"{root / path}: expected a whole number of rows of {found.row_bytes} bytes "
            f"({dtype} of shape {shape}), got {file.size_bytes} bytes"
        )
    return StoredArray(found.name, container, rows, 0)


def _check(where: str, header: NpyHeader, size_bytes: int) -> None:
    if not header.shape or 0 in header.shape:
        raise UsageError(f"{where}: expected a row for each sample, got the shape {header.shape}")
    if header.fortran_order:
        raise UsageError(
            f"{where}: its columns lie one after the other (Fortran order); save "
            "np.ascontiguousarray of it"
        )
    if header.offset + header.size_bytes != size_bytes:
        raise UsageError(
            f"{where}: its header says {header.size_bytes} bytes of data, but there are "
            f"{size_bytes - header.offset}; it is damaged"
        )
