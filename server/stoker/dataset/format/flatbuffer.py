"""A small writer of FlatBuffers, sufficient for Arrow's metadata.

Arrow describes its files by FlatBuffers. Stoker writes them itself, because pyarrow aligns buffers
to 8 bytes and the reader wants 64, and because the bytes of a dataset must not depend on the
version of a library. Objects are written front to back, a parent before its children; every table
begins at a multiple of 8 bytes and follows its own vtable, and nothing is shared. So equal input
gives equal bytes.

Source: https://flatbuffers.dev/internals/ (little-endian; offsets are unsigned 32-bit, forward).
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_BYTES = 2**31 - 1


@dataclass(frozen=True)
class Scalar:
    """A number stored in the table itself; `code` is its `struct` letter."""

    code: str
    value: int


@dataclass(frozen=True)
class FlatTable:
    """A table: slot number -> its value; missing slots have their default."""

    fields: Mapping[int, "Scalar | FlatTable | Text | Tables | Structs"]


@dataclass(frozen=True)
class Text:
    """A string in UTF-8."""

    value: str


@dataclass(frozen=True)
class Tables:
    """A vector of tables."""

    items: Sequence[FlatTable]


@dataclass(frozen=True)
class Structs:
    """A vector of equal structs, aligned to 8 bytes; `code` is the `struct` format of one."""

    code: str
    items: Sequence[tuple[int, ...]]


def encode(root: FlatTable) -> bytes:
    """Return the FlatBuffer with this table as its root."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _write(out, root))
    return bytes(out)


def _write(out: bytearray, node: FlatTable | Text | Tables | Structs) -> int:
    if isinstance(node, FlatTable):
        return _table(out, node)
    if isinstance(node, Text):
        return _text(out, node)
    if isinstance(node, Tables):
        return _tables(out, node)
    return _structs(out, node)


def _table(out: bytearray, table: FlatTable) -> int:
    places, size = _places(table)
    _pad(out, 2)
    vtable = len(out)
    out += struct.pack("<HH", 4 + 2 * len(places), size)
    out += struct.pack(f"<{len(places)}H", *places)
    _pad(out, 8)
    start = len(out)
    out += bytes(size)
    struct.pack_into("<i", out, start, start - vtable)
    children = []
    for slot, value in table.fields.items():
        if isinstance(value, Scalar):
            struct.pack_into("<" + value.code, out, start + places[slot], value.value)
        else:
            children.append((start + places[slot], value))
    for place, child in children:
        struct.pack_into("<I", out, place, _write(out, child) - place)
    return start


def _places(table: FlatTable) -> tuple[list[int], int]:
    """Place the fields in the table, widest first, so that all are aligned."""
    places = [0] * (max(table.fields, default=-1) + 1)
    sizes = {
        slot: struct.calcsize("<" + value.code) if isinstance(value, Scalar) else 4
        for slot, value in table.fields.items()
    }
    end = 4
    for slot in sorted(sizes, key=lambda slot: (-sizes[slot], slot)):
        end = -(-end // sizes[slot]) * sizes[slot]
        places[slot] = end
        end += sizes[slot]
    return places, end


def _text(out: bytearray, text: Text) -> int:
    _pad(out, 4)
    start, data = len(out), text.value.encode()
    out += struct.pack("<I", len(data)) + data + b"\0"
    return start


def _tables(out: bytearray, tables: Tables) -> int:
    _pad(out, 4)
    start = len(out)
    out += struct.pack("<I", len(tables.items)) + bytes(4 * len(tables.items))
    for index, item in enumerate(tables.items):
        place = start + 4 + 4 * index
        struct.pack_into("<I", out, place, _write(out, item) - place)
    return start


def _structs(out: bytearray, structs: Structs) -> int:
    _pad(out, 8, before=4)
    start = len(out)
    out += struct.pack("<I", len(structs.items))
    for item in structs.items:
        out += struct.pack("<" + structs.code, *item)
    return start


def _pad(out: bytearray, align: int, before: int = 0) -> None:
    out += bytes(-(len(out) + before) % align)
