"""From an item to the values of its fields, in a worker.

The reader of files knows whole files, extracts of containers and values given in place. Sources
whose rows are read whole by other means have readers of their own; `opening` names them all.
Containers are opened when they are first needed, and what changed since it was scanned is refused.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from stoker.dataset.format.cells import Value
from stoker.dataset.format.item import (
    Extract,
    Given,
    Item,
    Outlines,
    SourceFile,
    ValueSource,
    WholeFile,
)
from stoker.dataset.format.schema import Field
from stoker.dataset.images.inspect import picture_size
from stoker.dataset.limits import MAX_FILE_BYTES, CodecError
from stoker.dataset.sources.common.inflate import inflate
from stoker.dataset.sources.common.outlines import paint
from stoker.dataset.sources.common.recipe import Recipe


class BadItemError(Exception):
    """An item cannot be stored: the path of what is wrong, and the reason."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


class Reader(Protocol):
    """Reads items; closed by whoever opened it."""

    def read(self, item: Item) -> Mapping[str, Value]:
        """Return a value for each field.

        Raises:
            BadItemError: the item cannot be read.
        """
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


@runtime_checkable
class Locator(Reader, Protocol):
    """A reader that also knows where large values lie, for sources that are read in place."""

    def locate(self, item: Item) -> Mapping[str, Value | Extract]:
        """Return for each field where it lies, or its value.

        Raises:
            BadItemError: the item cannot be read, or not in place.
        """
        ...

    def extract(self, place: Extract) -> bytes:
        """Return what lies at a place.

        Raises:
            CodecError: it cannot be read.
        """
        ...


class FileReader:
    """Reads items whose places are files, extracts and given values, one for each field."""

    def __init__(self, recipe: Recipe) -> None:
        """Read by a recipe; containers are opened as they are needed."""
        self._root, self._containers = Path(recipe.source), recipe.containers
        self._fields = recipe.schema.fields
        self._open: dict[int, int] = {}

    def read(self, item: Item) -> dict[str, Value]:
        """Return a value for each field; see `Reader`."""
        values: dict[str, Value] = {}
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

    def _value(self, item: Item, place: ValueSource) -> Value:
        match place:
            case WholeFile():
                return read_file(self._root, place.file)
            case Given():
                value: Value = place.value
                return value
            case Extract():
                return self._extract(place)
            case Outlines():
                return paint(place.shapes, self._size(item), place.relative)
        raise TypeError(f"expected a place that is read by itself, got {place}")

    def _size(self, item: Item) -> tuple[int, int]:
        """Return the size that an item's outlines are for: as told, or that of its picture."""
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
            CodecError: the container has changed, cannot be read, or ends within it.
        """
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
                f"{container.file.path} ends within it: expected {place.size_bytes} bytes at "
                f"{place.offset}, got {len(data)}"
            )
        return data

    def _extract(self, place: Extract) -> Value:
        container, data = self._containers[place.container], self.extract(place)
        if not container.dtype:
            return data
        return np.frombuffer(data, container.dtype).reshape(container.shape)


def file_of(item: Item, fields: Sequence[Field], name: str) -> str | None:
    """Return the path of the file that an item's field of that name is, if it is one."""
    for field, place in zip(fields, item.places, strict=False):
        if field.name == name and isinstance(place, WholeFile):
            return place.file.path
    return None


def open_unchanged(root: Path, file: SourceFile) -> int:
    """Open a file as it was when it was scanned, and return the descriptor.

    Raises:
        CodecError: it cannot be opened, is no plain file, or has changed.
    """
    try:
        descriptor = os.open(root / file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CodecError(f"it cannot be read: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise CodecError("it cannot be read: it is no plain file")
    try:
        check_unchanged(status, file)
    except CodecError:
        os.close(descriptor)
        raise
    return descriptor


def check_unchanged(status: os.stat_result, file: SourceFile) -> None:
    """Compare a file with what it was when it was scanned; what is read lies between two checks.

    Raises:
        CodecError: its size or time of change is another.
    """
    if (status.st_size, status.st_mtime_ns) == (file.size_bytes, file.mtime_ns):
        return
    what = f"it had {file.size_bytes} bytes, and has {status.st_size}"
    if status.st_size == file.size_bytes:
        what = (
            f"it was written at {_told(status.st_mtime_ns)}, and before at {_told(file.mtime_ns)}"
        )
    raise CodecError(
        f"it changed while it was packed: {what}; let it rest, and run the same command again"
    )


def _told(time_ns: int) -> str:
    return f"{np.datetime64(min(time_ns, 2**63 - 1), 'ns')} UTC"


def check_path(root: Path, file: SourceFile) -> None:
    """Compare what lies at a file's path with what it was; for whoever has no descriptor of it.

    Raises:
        CodecError: it is gone, or has changed.
    """
    try:
        check_unchanged(os.stat(root / file.path), file)
    except OSError as error:
        raise CodecError(f"it cannot be read: {error.strerror}") from None


def read_file(root: Path, file: SourceFile) -> bytes:
    """Read a file; one that cannot be read, or changed since it was scanned, is refused.

    Raises:
        CodecError: it is such a file.
    """
    with os.fdopen(open_unchanged(root, file), "rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
        check_unchanged(os.fstat(stream.fileno()), file)
        return data
