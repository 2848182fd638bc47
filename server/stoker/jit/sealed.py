"""A digest at the end of each file of the kernel cache, which tells damage.

Machine code with a flipped bit may compute other pixels, or end the process, and neither numba nor
LLVM would notice. So a file ends with the BLAKE2b-128 of its name and its content. Pickles end by
themselves, so their reader ignores what follows. This detects damage; `stoker.jit.private` protects
against other users.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

SEAL_BYTES: Final = 16


class DamagedError(Exception):
    """A file of the cache has another content than the one that was written."""


class _Sealed:
    """A file that is being written, and the digest of what was written so far."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.total = _begun(name)

    def write(self, data: Any) -> int:
        """Write bytes."""
        self.total.update(data)
        return self._file.write(data)


@contextlib.contextmanager
def sealing(file: BinaryIO, name: str) -> Iterator[Any]:
    """Yield an object with `write`, and write the digest at the end of the block.

    Args:
        file: open for writing, empty.
        name: the file's name in its folder.
    """
    sealed = _Sealed(file, name)
    yield sealed
    file.write(sealed.total.digest())


def check_seal(path: str, name: str) -> None:
    """Check that a file has the content that was written.

    Args:
        path: where it can be read.
        name: its name in its folder.

    Raises:
        DamagedError: it has another content.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    total = _begun(name)
    total.update(memoryview(content)[:-SEAL_BYTES])
    if content[-SEAL_BYTES:] != total.digest():
        raise DamagedError(f"{name} is damaged: its digest does not fit its content")


def _begun(name: str) -> Any:
    return hashlib.blake2b(name.encode() + b"\0", digest_size=SEAL_BYTES)
