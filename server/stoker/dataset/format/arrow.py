"""Arrow IPC files of one record batch, written so that every buffer is aligned to 64 bytes.

A file is: magic, schema message, record batch message, body, end of stream, footer, magic. The
lengths of all buffers are known before the first byte is written, so their places are plain
arithmetic, the reader gets them from the manifest, and no Arrow library is needed to read or write.
There are no nulls (validity buffers have length 0), no dictionaries and no compression.

Column types are written as text, here and in the manifest: `large_binary`, `large_utf8`,
`fixed_size_binary[N]`, a NumPy number name (`int64`; `bool` is stored as `uint8`), a number with a
fixed shape (`float32[3,4]`, an Arrow fixed_size_list), or a number with a free first side
(`float32[?,4]`, an Arrow large_list of the numbers in row-major order).

Source: https://arrow.apache.org/docs/format/Columnar.html, version V5 of the metadata.
"""

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stoker.dataset.format.flatbuffer import FlatTable, Scalar, Structs, Tables, Text, encode

ALIGN = 64
MAGIC = b"ARROW1"
MAX_LIST = 2**31 - 1
_VERSION = Scalar("h", 4)
_SCHEMA, _RECORD_BATCH = 1, 3
_END_OF_STREAM = struct.pack("<Ii", 0xFFFFFFFF, 0)
_INTEGERS = {f"{sign}int{bits}": (bits, not sign) for sign in ("", "u") for bits in (8, 16, 32, 64)}
_FLOATS = {"float16": 0, "float32": 1, "float64": 2}
ITEM_BYTES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2, "int32": 4,
              "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8}  # fmt: skip
_NUMBER = re.compile(r"([a-z]+[0-9]*)(?:\[((?:\?|[1-9][0-9]*)(?:,[1-9][0-9]*)*)\])?")
_FIXED = re.compile(r"fixed_size_binary\[([1-9][0-9]*)\]")


@dataclass(frozen=True)
class ColumnType:
    """A parsed column type.

    Attributes:
        layout: "fixed" (every item has `item_bytes`) or "variable" (with an offsets buffer).
        dtype: element type of the items, "uint8" for binary.
        inner: shape below a free first side, or the whole shape of a fixed item.
        item_bytes: bytes of one item of shape `inner`. Offsets count elements, not items.
        form: the name of the type in Arrow.
    """

    layout: Literal["fixed", "variable"]
    dtype: str
    inner: tuple[int, ...]
    item_bytes: int
    form: Literal["number", "list", "large_list", "binary", "large_binary", "large_utf8"]


def parse_type(text: str) -> ColumnType:
    """Parse a column type.

    Raises:
        ValueError: the text is not a column type.
    """
    if text == "large_binary":
        return ColumnType("variable", "uint8", (), 1, "large_binary")
    if text == "large_utf8":
        return ColumnType("variable", "uint8", (), 1, "large_utf8")
    if fixed := _FIXED.fullmatch(text):
        return _sized("fixed", "uint8", (int(fixed[1]),), "binary")
    number = _NUMBER.fullmatch(text)
    if number is None or number[1] not in ITEM_BYTES:
        raise ValueError(
            f"expected a column type such as large_binary, int64 or float32[3], got {text!r}"
        )
    sides = (number[2] or "").split(",") if number[2] else []
    if sides and sides[0] == "?":
        return _sized("variable", number[1], tuple(map(int, sides[1:])), "large_list")
    return _sized("fixed", number[1], tuple(map(int, sides)), "list" if sides else "number")


def _sized(
    layout: Literal["fixed", "variable"],
    dtype: str,
    inner: tuple[int, ...],
    form: Literal["number", "list", "large_list", "binary"],
) -> ColumnType:
    count = math.prod(inner)
    if count > MAX_LIST:
        raise ValueError(f"expected at most {MAX_LIST} elements in an item, got the shape {inner}")
    return ColumnType(layout, dtype, inner, ITEM_BYTES[dtype] * count, form)


@dataclass(frozen=True)
class PlacedBuffer:
    """The place of one column in the file: (offset, length) in bytes, of offsets and data."""

    offsets: tuple[int, int] | None
    data: tuple[int, int]


@dataclass(frozen=True)
class FilePlan:
    """The layout of a file of one record batch, made before its body is written.

    Attributes:
        head: the bytes before the body, a multiple of 64 long.
        places: the place of each column, in order.
        tail: the bytes after the body.
        size_bytes: size of the whole file.
    """

    head: bytes
    places: tuple[PlacedBuffer, ...]
    tail: bytes
    size_bytes: int


def plan_file(columns: Sequence[tuple[str, ColumnType, int]], rows: int) -> FilePlan:
    """Lay out a file.

    Args:
        columns: for each column its name, its type and the length in bytes of its data.
        rows: number of rows.
    """
    nodes: list[tuple[int, ...]] = []
    buffers: list[tuple[int, ...]] = []
    local: list[tuple[tuple[int, int] | None, tuple[int, int]]] = []
    end = 0
    for _, kind, data_bytes in columns:
        offsets = None
        buffers.append((end, 0))
        nodes.append((rows, 0))
        if kind.layout == "variable":
            offsets = (end, 8 * (rows + 1))
            buffers.append(offsets)
            end = _up(end + offsets[1])
        if kind.form in ("list", "large_list"):
            buffers.append((end, 0))
            nodes.append((data_bytes // ITEM_BYTES[kind.dtype], 0))
        buffers.append((end, data_bytes))
        local.append((offsets, (end, data_bytes)))
        end = _up(end + data_bytes)
    schema = _schema([(name, kind) for name, kind, _ in columns])
    opening = MAGIC + b"\0\0" + _message(_SCHEMA, schema, 0, 8)
    batch = FlatTable({0: Scalar("q", rows), 1: Structs("qq", nodes), 2: Structs("qq", buffers)})
    message = _message(_RECORD_BATCH, batch, end, len(opening))
    head = opening + message
    block = (len(opening), len(message), 0, end)
    footer = encode(
        FlatTable({0: _VERSION, 1: schema, 2: Structs("qiiq", []), 3: Structs("qiiq", [block])})
    )
    tail = _END_OF_STREAM + footer + struct.pack("<i", len(footer)) + MAGIC
    places = tuple(
        PlacedBuffer(
            None if offsets is None else (len(head) + offsets[0], offsets[1]),
            (len(head) + data[0], data[1]),
        )
        for offsets, data in local
    )
    return FilePlan(head, places, tail, len(head) + end + len(tail))


def _up(value: int) -> int:
    return -(-value // ALIGN) * ALIGN


def _message(kind: int, header: FlatTable, body_bytes: int, start: int) -> bytes:
    """Return an encapsulated message that ends at a multiple of 64 if written at `start`."""
    message = encode(
        FlatTable({0: _VERSION, 1: Scalar("B", kind), 2: header, 3: Scalar("q", body_bytes)})
    )
    message += bytes(-(start + 8 + len(message)) % ALIGN)
    return struct.pack("<Ii", 0xFFFFFFFF, len(message)) + message


def _schema(columns: Sequence[tuple[str, ColumnType]]) -> FlatTable:
    return FlatTable({0: Scalar("h", 0), 1: Tables([_field(name, kind) for name, kind in columns])})


def _field(name: str, kind: ColumnType) -> FlatTable:
    children: list[FlatTable] = []
    number, kind_of_number = _number_type(kind.dtype)
    union, detail = {
        "number": (number, kind_of_number),
        "list": (16, FlatTable({0: Scalar("i", math.prod(kind.inner))})),
        "large_list": (21, FlatTable({})),
        "binary": (15, FlatTable({0: Scalar("i", kind.item_bytes)})),
        "large_binary": (19, FlatTable({})),
        "large_utf8": (20, FlatTable({})),
    }[kind.form]
    if kind.form in ("list", "large_list"):
        children = [_plain_field("item", number, kind_of_number, [])]
    return _plain_field(name, union, detail, children)


def _plain_field(name: str, union: int, detail: FlatTable, children: list[FlatTable]) -> FlatTable:
    return FlatTable(
        {
            0: Text(name),
            1: Scalar("B", 0),
            2: Scalar("B", union),
            3: detail,
            5: Tables(children),
        }
    )


def _number_type(dtype: str) -> tuple[int, FlatTable]:
    if dtype in _FLOATS:
        return 3, FlatTable({0: Scalar("h", _FLOATS[dtype])})
    bits, signed = _INTEGERS["uint8" if dtype == "bool" else dtype]
    return 2, FlatTable({0: Scalar("i", bits), 1: Scalar("B", int(signed))})
