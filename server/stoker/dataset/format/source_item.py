"""One sample of a source before it is read: its name, its size, and the places of its values.

Items are made by scanning, written to a listing, and read by workers, so they are plain data. The
place of a value is a whole file, a range of bytes of a container, a row of one, outlines to paint a
mask from, or the value itself. Everything that changes the written bytes must be part of the item
or of its scan's containers, because they are the key under which finished work is kept.
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
        dtype: dtype of the array that an extract is, in NumPy's notation with byte order (`<f4`);
            empty if extracts are plain bytes.
        shape: shape of that array.
        member: name of a member, if the file is an archive (zip); the member is inflated before it
            is read. Otherwise empty.
    """

    file: SourceFile
    dtype: str = ""
    shape: tuple[int, ...] = ()
    member: str = ""


class WholeFile(msgspec.Struct, frozen=True, array_like=True, tag="file"):
    """The bytes of a file."""

    file: SourceFile


class Extract(msgspec.Struct, frozen=True, array_like=True, tag="extract"):
    """`size_bytes` bytes, from `offset` on, of the scan's container of that number."""

    container: int
    offset: int
    size_bytes: int


class Given(msgspec.Struct, frozen=True, array_like=True, tag="given"):
    """The value itself: a number, a list of numbers, bytes, a dict of lists (boxes), or None."""

    value: Any


class Outlines(msgspec.Struct, frozen=True, array_like=True, tag="outlines"):
    """A mask that is painted from shapes, later ones on top; see `sources.outlines`.

    Attributes:
        shapes: (value, segmentation as JSON).
        relative: whether polygons are relative to the image's width and height, not in pixels.
    """

    shapes: tuple[tuple[int, bytes], ...]
    relative: bool = False


class ContainerRow(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """Row `number` of a container with its own reader; the row has all fields."""

    container: int
    number: int


ValueSource = WholeFile | Extract | Given | Outlines | ContainerRow


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One sample of a source.

    Attributes:
        name: a readable name, such as the path of its first file; stored as its source.
        size_bytes: the cost of reading it, for cutting and for progress.
        places: the places of its values, one per field in their order; or a single `ContainerRow`
            if a row is read as a whole.
        size: (height, width) that its images and masks must have, after orientation; None: any.
    """

    name: str
    size_bytes: int
    places: tuple[ValueSource, ...]
    size: tuple[int, int] | None = None


def item_of_files(files: tuple[SourceFile, ...], *given: object) -> Item:
    """Return an item of whole files, which come first, and of given values."""
    places: list[ValueSource] = [WholeFile(file) for file in files]
    places += [Given(value) for value in given]
    return Item(files[0].path, sum(file.size_bytes for file in files), tuple(places))
