"""The listing of a source's items: written by the packing process, read by workers.

Each item is a length (32 bits, little-endian) and that many bytes of MessagePack, which keeps
numbers exactly (JSON has no NaN) and bytes without escaping.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stoker.dataset.format.source_item import Item
from stoker.protocol.analysis import analyzed

_LENGTH = struct.Struct("<I")


def listed(item: Item) -> bytes:
    """Return an item in the form of a listing."""
    data = msgspec.msgpack.encode(item)
    return _LENGTH.pack(len(data)) + data


def read_listing(path: Path, offset: int, count: int) -> Iterator[Item]:
    """Yield `count` items that begin at byte `offset` of a listing."""
    decoder = msgspec.msgpack.Decoder(analyzed(Item))
    with open(path, "rb") as file:
        file.seek(offset)
        for _ in range(count):
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            yield decoder.decode(file.read(length))
