"""The files of a source that is read in place, which must stay as they were when indexed.

Bytes are read, not mapped: other programs own such a file, and truncating it while it is mapped
would kill this process. Size and modification time are compared at every read, so a file that is
written to is noticed before its bytes are used. If a file is replaced, processes that have it open
continue with the old one. The `MAX_OPEN` last used descriptors are kept. Runs in workers; threads
may share it.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from stoker.dataset.format.source_item import SourceFile
from stoker.dataset.limits import TRIES
from stoker.protocol.errors import ClosedError, DatasetError

MAX_OPEN = 64
Found = TypeVar("Found")


class SourceFiles:
    """The files of a source, by number."""

    def __init__(self, root: Path, files: Sequence[SourceFile]) -> None:
        """Take the files; each is opened when it is first read."""
        self._root, self._files = root, files
        self._open: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def name(self, number: int) -> str:
        """Return the path of a file, relative to the source."""
        return self._files[number].path

    def read(self, number: int, offset: int, size_bytes: int) -> bytes:
        """Return a range of bytes of a file.

        Raises:
            DatasetError: the file is gone, cannot be read, or has changed.
            ClosedError: the source was closed.
        """
        with self._lock:  # another thread must not close the descriptor that this one reads
            data = self._tried(number, lambda one: os.pread(one, size_bytes, offset))
            self._check(number, self._descriptor(number))
        if len(data) != size_bytes:
            raise self._changed(
                number, f"expected {size_bytes} bytes from byte {offset} on, but it ends before"
            )
        return data

    def will_need(self, number: int, offset: int, size_bytes: int) -> None:
        """Start to read a range of bytes from storage, without waiting for it.

        Raises:
            DatasetError: the file is gone or has changed.
            ClosedError: the source was closed.
        """
        with self._lock:
            self._tried(
                number,
                lambda one: os.posix_fadvise(one, offset, size_bytes, os.POSIX_FADV_WILLNEED),
            )

    def close(self) -> None:
        """Close all files. Idempotent."""
        with self._lock:
            self._closed = True
            for descriptor in self._open.values():
                os.close(descriptor)
            self._open.clear()

    def _tried(self, number: int, use: Callable[[int], Found]) -> Found:
        """Open and use a file; an error of storage may disappear in another try."""
        last: OSError | None = None
        for _ in range(TRIES):
            try:
                return use(self._descriptor(number))
            except OSError as error:
                last = error
        assert last is not None
        raise self._unreadable(number, last) from None

    def _descriptor(self, number: int) -> int:
        if self._closed:
            raise ClosedError(f"the source {self._root} was closed; open it again")
        descriptor = self._open.get(number)
        if descriptor is None:
            path = self._root / self._files[number].path
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._open[number] = descriptor
            self._check(number, descriptor)
            if len(self._open) > MAX_OPEN:
                os.close(self._open.popitem(last=False)[1])
        else:
            self._open.move_to_end(number)
        return descriptor

    def _check(self, number: int, descriptor: int) -> None:
        """Compare a file with its entry in the index, after its bytes were read."""
        status, file = os.fstat(descriptor), self._files[number]
        if (status.st_size, status.st_mtime_ns) != (file.size_bytes, file.mtime_ns):
            raise self._changed(
                number,
                f"it had {file.size_bytes} bytes and was written at {file.mtime_ns} ns when it was "
                f"indexed, now it has {status.st_size} and was written at {status.st_mtime_ns} ns",
            )

    def _unreadable(self, number: int, error: OSError) -> DatasetError:
        path = self._root / self._files[number].path
        return DatasetError(
            f"the source file {path} cannot be read: {error.strerror}; put it back, or check its "
            "permissions and the disk",
            file=str(path),
        )

    def _changed(self, number: int, what: str) -> DatasetError:
        path = self._root / self._files[number].path
        return DatasetError(
            f"the source file {path} changed while it is read in place: {what}; put it back, or "
            "open the dataset again, which makes it another dataset",
            file=str(path),
        )
