"""One sample of a source before it is read: its name, its size, and where each value comes from.

Items are made by scanning, written to a listing, and read by workers, so they are plain data. A
value is a whole file, a range of bytes of a container, a row of one, a mask to be painted, or given
in place. Whatever changes the bytes that are written must stand in the item or in its scan's
containers: they are the key under which finished work is kept.
"""

from typing import Any

import msgspec


class SourceFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a source: path relative to it, size in bytes, time of change in nanoseconds."""

    path: str
    size_bytes: int
    mtime_ns: int


class Container(msgspec.Struct, frozen=True, array_like=True):
    """A file that holds many values.

    Attributes:
        file: the file.
        dtype: of the array that an extract is, as NumPy writes it with byte order (`<f4`); empty
            where extracts are plain bytes.
        shape: of that array.
        member: of an archive (zip) that the file is, which is inflated before it is read; else
            empty.
    """

    file: SourceFile
    dtype: str = ""
    shape: tuple[int, ...] = ()
    member: str = ""


class WholeFile(msgspec.Struct, frozen=True, array_like=True, tag="file"):
    """The bytes of a file."""

    file: SourceFile


class Extract(msgspec.Struct, frozen=True, array_like=True, tag="extract"):
    """`size_bytes` bytes from `offset` on of the scan's container of that number."""

    container: int
    offset: int
    size_bytes: int


class Given(msgspec.Struct, frozen=True, array_like=True, tag="given"):
    """The value itself: a number, a list of numbers, bytes, or a dict of lists (boxes)."""

    value: Any


class Outlines(msgspec.Struct, frozen=True, array_like=True, tag="outlines"):
    """A mask made of shapes that are painted one over another, see `sources.outlines`.

    Attributes:
        shapes: (value, segmentation as JSON).
        relative: whether polygons are in parts of the picture's width and height, not in pixels.
    """

    shapes: tuple[tuple[int, bytes], ...]
    relative: bool = False


class Record(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """Row `number` of a container that a reader of its own understands, with all its fields."""

    container: int
    number: int


ValueSource = WholeFile | Extract | Given | Outlines | Record


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One sample of a source.

    Attributes:
        name: what people call it, such as the path of its first file; stored as its source.
        size_bytes: what reading it costs, for the cut and for progress.
        places: where its values come from, one for each field in their order; or a single `Record`
            where a row is read whole.
        size: (height, width) that its pictures must have, after orientation; None: any.
    """

    name: str
    size_bytes: int
    places: tuple[ValueSource, ...]
    size: tuple[int, int] | None = None


def item_of_files(files: tuple[SourceFile, ...], *given: object) -> Item:
    """Return an item of whole files, which come first, and values given in place."""
    places: list[ValueSource] = [WholeFile(file) for file in files]
    places += [Given(value) for value in given]
    return Item(files[0].path, sum(file.size_bytes for file in files), tuple(places))
