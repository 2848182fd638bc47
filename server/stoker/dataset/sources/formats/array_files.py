"""Arrays on disk with one row per sample: .npy files, .npz archives, and plain bytes.

Only headers are read here, never with pickle. Uncompressed members of an .npz have a known offset
in it; compressed ones are inflated by the workers that read them.
"""

import math
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stoker.dataset.format.source_item import Container
from stoker.dataset.limits import MAX_INFLATED_BYTES, CodecError, check_unpacked
from stoker.dataset.sources.common.inflate import DAMAGE
from stoker.dataset.sources.common.npy import HEADER_BYTES, NpyHeader, read_header
from stoker.dataset.sources.common.walk import look_at
from stoker.protocol.errors import UsageError

_LOCAL_HEADER = struct.Struct("<26xHH")


@dataclass(frozen=True)
class StoredArray:
    """An array of (rows, ...) that is stored in a file.

    Attributes:
        name: name of the file without its suffix, or of the member.
        container: the container of its rows.
        rows: number of rows.
        offset: offset of the first row in the container, in bytes.
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
        UsageError: it is not one, or its rows are not contiguous.
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
    """Read the headers of an .npz archive's arrays, except the ignored ones.

    Raises:
        UsageError: it is not one, or rows of an array are not contiguous.
    """
    file, found = look_at(root / path, path), []
    try:
        with zipfile.ZipFile(root / path) as archive, open(root / path, "rb") as stream:
            _check_members(f"{root / path}", archive.infolist(), file.size_bytes)
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
        raise UsageError(f"cannot read {root / path} as an .npz archive: {error}") from None
    return found


def _check_members(where: str, members: Sequence[zipfile.ZipInfo], size_bytes: int) -> None:
    """Check what an archive's members claim, all together, because they may share their bytes.

    Raises:
        UsageError: they unpack to far more than the archive, or are compressed in another way than
            by NumPy, of which the module zipfile unpacks without a bound.
    """
    packed = [info for info in members if info.compress_type != zipfile.ZIP_STORED]
    for info in packed:
        if info.compress_type != zipfile.ZIP_DEFLATED:
            raise UsageError(
                f"{where}: its member {info.filename!r} has the compression type "
                f"{info.compress_type}, expected that of np.savez_compressed "
                f"({zipfile.ZIP_DEFLATED}) or none; save it again"
            )
    try:
        inflated_bytes = sum(info.file_size for info in packed)
        check_unpacked(inflated_bytes, size_bytes, "np.savez", MAX_INFLATED_BYTES)
    except CodecError as error:
        raise UsageError(f"{where}: {error}") from None


def open_raw(root: Path, path: str, dtype: str, shape: tuple[int, ...]) -> StoredArray:
    """Open a file of plain bytes as an array, little-endian, row after row.

    Raises:
        UsageError: it cannot be read, or is not a whole number of rows.
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
        raise UsageError(f"{where}: expected one row per sample, got the shape {header.shape}")
    if header.fortran_order:
        raise UsageError(
            f"{where}: expected an array in C order, got Fortran order; save "
            "np.ascontiguousarray of it"
        )
    if header.offset + header.size_bytes != size_bytes:
        raise UsageError(
            f"{where}: expected {header.size_bytes} bytes of data, from its header, got "
            f"{size_bytes - header.offset}; it is damaged"
        )
