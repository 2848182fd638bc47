"""Unpacked sizes that compressed buffers of an Arrow IPC file claim, read before any is unpacked.

A compressed buffer begins with its unpacked size, which Arrow allocates at once. Only these eight
bytes of each buffer are read, and the metadata of messages: FlatBuffers, in which every offset is
checked. Where the file is damaged, the rest counts as nothing: pyarrow then says what is wrong.

Source: https://arrow.apache.org/docs/format/Columnar.html (Serialization and Interprocess
Communication, Compression) and https://flatbuffers.dev/internals/.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress

_FILE_MAGIC = b"ARROW1"
_CONTINUES = 0xFFFFFFFF
_DICTIONARY, _RECORDS = 2, 3
_BLOCK_BYTES, _BUFFER_BYTES = 24, 16


def unpacked_bytes(whole: memoryview) -> int:
    """Return what all compressed buffers of a file claim together, in bytes.

    Args:
        whole: the file, as a stream or with a footer; any bytes.
    """
    data, total = whole.cast("B"), 0
    with suppress(struct.error, ValueError):
        for start in _footer_places(data) if data[:6] == _FILE_MAGIC else _stream_places(data):
            total += _of_message(data, start)[0]
    return total


def _footer_places(data: memoryview) -> Iterator[int]:
    """Yield where the messages of a file begin, by its footer."""
    size = _number("<i", data, len(data) - 10)
    footer = _Table.root(data[len(data) - 10 - size : len(data) - 10] if size > 0 else data[:0])
    for slot in (2, 3):
        first, count = footer.vector(slot)
        for index in range(count):
            yield _number("<q", footer.data, first + index * _BLOCK_BYTES)


def _stream_places(data: memoryview) -> Iterator[int]:
    """Yield the offsets of the messages of a stream, in order."""
    place = 0
    while place < len(data):
        yield place
        _, size = _of_message(data, place)
        if size <= 0:
            return
        place += size


def _of_message(data: memoryview, start: int) -> tuple[int, int]:
    """Return what a message claims to unpack to, and its own size; 0 for the stream's end."""
    size, head = _number("<I", data, start), start + 4
    if size == _CONTINUES:
        size, head = _number("<I", data, head), head + 4
    if size == 0:
        return 0, 0
    message = _Table.root(data[head : head + size])
    body = head + size
    whole = body - start + message.scalar("<q", 3)
    kind = message.scalar("<B", 1)
    if kind not in (_DICTIONARY, _RECORDS):
        return 0, whole
    records = message.table(2)
    if kind == _DICTIONARY:
        records = records.table(1)
    if not records.has(3):
        return 0, whole
    first, count = records.vector(2)
    total = 0
    for index in range(count):
        place = first + index * _BUFFER_BYTES
        offset, length = (_number("<q", records.data, place + part) for part in (0, 8))
        if length:
            total += max(_number("<q", data, body + offset), 0)
    return total, whole


class _Table:
    """A table of a FlatBuffer; its `place` is the position of its vtable's offset."""

    def __init__(self, data: memoryview, place: int) -> None:
        self.data, self._place = data, place
        self._vtable = place - _number("<i", data, place)
        self._size = _number("<H", data, self._vtable)

    @classmethod
    def root(cls, data: memoryview) -> "_Table":
        return cls(data, _number("<I", data, 0))

    def has(self, slot: int) -> bool:
        return self._at(slot) is not None

    def scalar(self, code: str, slot: int) -> int:
        place = self._at(slot)
        return 0 if place is None else _number(code, self.data, place)

    def table(self, slot: int) -> "_Table":
        return _Table(self.data, self._target(slot))

    def vector(self, slot: int) -> tuple[int, int]:
        """Return the position of the first element, and the number of elements."""
        if not self.has(slot):
            return 0, 0
        place = self._target(slot)
        return place + 4, _number("<I", self.data, place)

    def _target(self, slot: int) -> int:
        place = self._at(slot)
        if place is None:
            raise ValueError(slot)
        return place + _number("<I", self.data, place)

    def _at(self, slot: int) -> int | None:
        entry = 4 + 2 * slot
        if entry + 2 > self._size:
            return None
        offset = _number("<H", self.data, self._vtable + entry)
        return self._place + offset if offset else None


def _number(code: str, data: memoryview, place: int) -> int:
    """Read a number; a place before the start is an error too.

    Raises:
        struct.error, ValueError: the place is outside of the data.
    """
    if place < 0:
        raise ValueError(place)
    return int(struct.unpack_from(code, data, place)[0])
