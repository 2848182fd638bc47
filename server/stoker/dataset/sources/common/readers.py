"""Read the values of an item's fields, in a worker.

The reader of files handles whole files, extracts of containers, and given values. Sources whose
rows are read as a whole have their own readers; `opening` lists them all. Containers are opened
when they are first needed, and a file that has changed since the scan is rejected.
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import (
    Extract,
    Given,
    Item,
    Outlines,
    SourceFile,
    ValueSource,
    WholeFile,
)
from stoker.dataset.images.inspection import picture_size
from stoker.dataset.limits import CodecError, check_value
from stoker.dataset.sources.common.inflate import inflate
from stoker.dataset.sources.common.outlines import paint
from stoker.dataset.sources.common.recipe import Recipe
from stoker.protocol.files.absent import why_absent


class BadItemError(Exception):
    """An item cannot be stored; has the path of the faulty file and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class Reader(Protocol):
    """Reads items; the code that opened it closes it."""

    def read(self, item: Item) -> Mapping[str, Value | None]:
        """Return a value for each field; None for an optional one that is absent.

        Raises:
            BadItemError: the item cannot be read.
        """
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


@runtime_checkable
class Locator(Reader, Protocol):
    """A reader that also knows the places of large values, for sources read in place."""

    def locate(self, item: Item) -> Mapping[str, Value | Extract]:
        """Return for each field the place of its value, or the value itself.

        Raises:
            BadItemError: the item cannot be read, or not in place.
        """
        ...

    def extract(self, place: Extract) -> bytes:
        """Return the bytes at a place.

        Raises:
            CodecError: they cannot be read.
        """
        ...


class FileReader:
    """Reads items whose places are files, extracts and given values, one for each field."""

    def __init__(self, recipe: Recipe) -> None:
        """Prepare for a recipe; containers are opened when they are needed."""
        self._root, self._containers = Path(recipe.source), recipe.containers
        self._fields = recipe.schema.fields
        self._open: dict[int, int] = {}

    def read(self, item: Item) -> dict[str, Value | None]:
        """Return a value for each field; see `Reader`."""
        values: dict[str, Value | None] = {}
        for field, place in zip(self._fields, item.places, strict=True):
            try:
                values[field.name] = self._value(item, place)
            except CodecError as error:
                path = place.file.path if isinstance(place, WholeFile) else item.name
                raise BadItemError(path, str(error)) from None
        return values

    def close(self) -> None:
        """Close the containers."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _value(self, item: Item, place: ValueSource) -> Value | None:
        match place:
            case WholeFile():
                return read_file(self._root, place.file)
            case Given():
                value: Value | None = place.value
                return value
            case Extract():
                return self._extract(place)
            case Outlines():
                return paint(place.shapes, self._size(item), place.relative)
        raise TypeError(f"expected a place that is read by itself, got {place}")

    def _size(self, item: Item) -> tuple[int, int]:
        """Return the size for an item's outlines: the item's own, or that of its image."""
        if item.size is not None:
            return item.size
        field, file = next(
            (field, place.file)
            for field, place in zip(self._fields, item.places, strict=True)
            if isinstance(place, WholeFile)
        )
        return picture_size(read_file(self._root, file), bool(field.keeps_orientation))

    def extract(self, place: Extract) -> bytes:
        """Return a range of bytes of a container.

        Raises:
            CodecError: the container has changed, cannot be read, or ends before the place does; or
            the place is larger than a value may be.
        """
        check_value(place.size_bytes)
        container = self._containers[place.container]
        descriptor = self._open.get(place.container)
        try:
            if descriptor is None:
                descriptor = open_unchanged(self._root, container.file)
                if container.member:
                    descriptor = inflate(descriptor, container.member)
                self._open[place.container] = descriptor
            data = os.pread(descriptor, place.size_bytes, place.offset)
            if container.member:
                check_path(self._root, container.file)
            else:
                check_unchanged(os.fstat(descriptor), container.file)
        except OSError as error:
            raise CodecError(f"{container.file.path}: {error.strerror}") from None
        except CodecError as error:
            raise CodecError(f"{container.file.path}: {error}") from None
        if len(data) != place.size_bytes:
            raise CodecError(
                f"{container.file.path} is too short: expected {place.size_bytes} bytes at "
                f"{place.offset}, got {len(data)}"
            )
        return data

    def _extract(self, place: Extract) -> Value:
        container, data = self._containers[place.container], self.extract(place)
        if not container.dtype:
            return data
        return np.frombuffer(data, container.dtype).reshape(container.shape)


def file_of(item: Item, fields: Sequence[Field], name: str) -> str | None:
    """Return the path of an item's field of that name, if it is a whole file."""
    for field, place in zip(fields, item.places, strict=False):
        if field.name == name and isinstance(place, WholeFile):
            return place.file.path
    return None


def open_unchanged(root: Path, file: SourceFile) -> int:
    """Open a file that must not have changed since the scan, and return the descriptor.

    Raises:
        CodecError: it cannot be opened, is not a regular file, or has changed.
    """
    try:
        descriptor = os.open(root / file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        hint = why_absent(file.path) if error.errno == errno.ENOENT else ""
        raise CodecError(f"it cannot be read: {error.strerror}{hint}") from None
    except ValueError:
        raise CodecError("it cannot be read: its name has a NUL byte") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise CodecError("it cannot be read: it is not a regular file")
    try:
        check_unchanged(status, file)
    except CodecError:
        os.close(descriptor)
        raise
    return descriptor


def check_unchanged(status: os.stat_result, file: SourceFile) -> None:
    """Compare a file with its state at the scan; done before and after each read.

    Raises:
        CodecError: its size or modification time differs.
    """
    if (status.st_size, status.st_mtime_ns) == (file.size_bytes, file.mtime_ns):
        return
    what = f"it had {file.size_bytes} bytes and now has {status.st_size}"
    if status.st_size == file.size_bytes:
        what = f"it was written at {_told(file.mtime_ns)} and again at {_told(status.st_mtime_ns)}"
    raise CodecError(
        f"it changed while it was packed: {what}; stop changing it, and run the same command again"
    )


def _told(time_ns: int) -> str:
    return f"{np.datetime64(min(time_ns, 2**63 - 1), 'ns')} UTC"


def check_path(root: Path, file: SourceFile) -> None:
    """Compare the file at a path with its state at the scan, for readers without a descriptor.

    Raises:
        CodecError: it is gone, or has changed.
    """
    try:
        check_unchanged(os.stat(root / file.path), file)
    except OSError as error:
        raise CodecError(f"it cannot be read: {error.strerror}") from None


def read_file(root: Path, file: SourceFile) -> bytes:
    """Read a file that must not have changed since the scan.

    Raises:
        CodecError: it cannot be read, has changed, or is too large.
    """
    check_value(file.size_bytes)
    with os.fdopen(open_unchanged(root, file), "rb") as stream:
        data = stream.read(file.size_bytes + 1)
        check_unchanged(os.fstat(stream.fileno()), file)
        return data
