"""The places of the members of a tar archive, read from its headers alone.

Every header is 512 bytes; the data after it is skipped, never read. Supported are regular files
with names in the old, ustar, GNU (long names) and pax (path, size) forms. Folders and links are
skipped, because they hold no data. Members that are not one contiguous range of bytes (sparse
files), and archives that are compressed as a whole, raise an error that names them. Nothing is
extracted, and the name of a member is never used as a path.

Runs while packing, and while indexing a source that is read in place. Names are bounded, and
headers are trusted only if their checksum is right.

Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar manual,
"Basic Tar Format".
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = 512
MAX_NAME_BYTES = 4096
MAX_PAX_BYTES = 2**20
_FILES = b"\0" + b"07"
_PASSED = b"123456V"
_LONG_NAME, _LONG_LINK, _PAX, _PAX_FOR_ALL, _SPARSE = b"L", b"K", b"x", b"g", b"S"
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "LZ4",
}


class TarError(ValueError):
    """An archive cannot be read beyond some byte; the text says which and why."""


class TarMember(NamedTuple):
    """A file in an archive: its name, and the offset and size of its data in bytes."""

    name: str
    offset: int
    size_bytes: int


def read_members(path: Path) -> Iterator[TarMember]:
    """Yield the files of an archive in their order.

    Raises:
        TarError: the archive is damaged, truncated, compressed, or holds a sparse file. The members
            before that place have been yielded.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from _HeaderReader(descriptor).members()
    finally:
        os.close(descriptor)


class _HeaderReader:
    """Walks the headers of one open archive."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._end = os.fstat(descriptor).st_size
        self._place = 0
        self._name: str | None = None
        self._size: int | None = None

    def members(self) -> Iterator[TarMember]:
        while (header := self._header()) is not None:
            kind, size = header[156:157], self._size_of(header)
            data = self._place + BLOCK
            if data + size > self._end:
                raise self._error(
                    f"the member {_name(header)!r} has {size} bytes, but the archive ends after "
                    f"{self._end - data} of them: it is truncated"
                )
            if kind in (_LONG_NAME, _LONG_LINK, _PAX, _PAX_FOR_ALL):
                self._extend(kind, data, size)
            elif kind == _SPARSE:
                raise self._error(
                    f"the member {_name(header)!r} is sparse; store it as a regular file"
                )
            else:
                name = self._name or _name(header)
                self._name = self._size = None
                if kind in _FILES and not name.endswith("/"):
                    yield TarMember(name, data, size)
                elif kind not in _FILES and kind not in _PASSED:
                    raise self._error(
                        f"the member {name!r} has the unknown type {kind!r}; store regular files"
                    )
            self._place = data + -(-size // BLOCK) * BLOCK

    def _header(self) -> bytes | None:
        """Return the header at this place, None at the archive's end."""
        header = os.pread(self._descriptor, BLOCK, self._place)
        if not header:
            if self._place == 0:
                raise self._error("it is empty")
            return None
        if self._place == 0:
            for start, name in _COMPRESSED.items():
                if header.startswith(start):
                    raise self._error(f"it is compressed with {name}; decompress it first")
        if len(header) < BLOCK:
            raise self._error("the archive ends inside a header: it is truncated")
        if not header.strip(b"\0"):
            return None
        if not _checksum_holds(header):
            raise self._error("expected a tar header with a valid checksum")
        return header

    def _size_of(self, header: bytes) -> int:
        if self._size is not None and header[156:157] not in (_PAX, _PAX_FOR_ALL):
            return self._size
        field = header[124:136]
        if field[0] & 0x80:  # GNU: a number of 95 bits, big-endian
            return int.from_bytes(field[1:], "big") | (field[0] & 0x7F) << 88
        return self._octal(field)

    def _octal(self, field: bytes) -> int:
        digits = field.strip(b"\0 ")
        try:
            return int(digits or b"0", 8)
        except ValueError:
            raise self._error(f"expected octal digits as a size, got {field!r}") from None

    def _extend(self, kind: bytes, data: int, size: int) -> None:
        """Read a record about the next member."""
        limit = MAX_PAX_BYTES if kind in (_PAX, _PAX_FOR_ALL) else MAX_NAME_BYTES
        if size > limit:
            raise self._error(f"a record about a member has {size} bytes, more than {limit}")
        text = os.pread(self._descriptor, size, data)
        if kind == _LONG_NAME:
            self._name = self._text(text.rstrip(b"\0"))
        elif kind == _PAX:
            self._take(self._pax_records(text))

    def _take(self, records: dict[str, bytes]) -> None:
        if any(name.startswith("GNU.sparse.") for name in records):
            raise self._error("a member is sparse; store it as a regular file")
        if "path" in records:
            self._name = self._text(records["path"])
        if "size" in records:
            if not records["size"].isdigit() or len(records["size"]) > 20:
                raise self._error(f"expected digits as a size, got {records['size'][:32]!r}")
            self._size = int(records["size"])

    def _pax_records(self, text: bytes) -> dict[str, bytes]:
        """Parse lines of `length name=value`; the length counts the whole line."""
        records: dict[str, bytes] = {}
        place = 0
        while place < len(text):
            digits = text[place : place + 8].split(b" ", 1)[0]
            length = int(digits) if digits.isdigit() else 0
            line = text[place : place + length]
            name, equals, value = line[len(digits) + 1 : -1].partition(b"=")
            whole = len(line) == length > len(digits) + 2 and line.endswith(b"\n")
            if not whole or not equals:
                raise self._error(f"a pax record is damaged: {text[place : place + 32]!r}")
            records[name.decode(errors="replace")] = value
            place += length
        return records

    def _text(self, name: bytes) -> str:
        if len(name) > MAX_NAME_BYTES:
            raise self._error(f"a name has {len(name)} bytes, more than {MAX_NAME_BYTES}")
        return name.decode(errors="surrogateescape")

    def _error(self, what: str) -> TarError:
        return TarError(f"at byte {self._place}: {what}")


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].split(b"\0", 1)[0]
        name = prefix + b"/" + name if prefix else name
    return name.decode(errors="surrogateescape")


def _checksum_holds(header: bytes) -> bool:
    """Compare the sum of all bytes, with the checksum's own bytes as spaces."""
    digits = header[148:156].strip(b"\0 ")
    if not digits or digits.strip(b"01234567"):
        return False
    return int(digits, 8) == sum(header) - sum(header[148:156]) + 8 * 0x20
