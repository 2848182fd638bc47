"""A small disk that can be full: a tmpfs of its own, which is mounted at no folder.

Others reach it through this process's descriptor, so it ends with this process, however that ends.
To make one needs root.
"""

import contextlib
import ctypes
import os
from pathlib import Path

SIZE = b"256k"
BLOCK_BYTES = 4096
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432  # system calls, the same on every processor
_SET_STRING, _CREATE = 1, 6
_CLOSE_ON_EXEC = 1


class Disk:
    """A disk with a folder for quarantine files, `bad`, and a log."""

    def __init__(self) -> None:
        """Make it.

        Raises:
            OSError: this user may not, or the kernel cannot.
        """
        self._fd = _mounted()
        self._root = Path(f"/proc/{os.getpid()}/fd/{self._fd}")
        self.bad = self._root / "bad"
        self._log = self._root / "log"
        self.log = os.open(self._log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def fill(self) -> None:
        """Use all of its space."""
        with contextlib.suppress(OSError), (self._root / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(BLOCK_BYTES))

    def make_room(self) -> None:
        """Free what `fill` used."""
        (self._root / "filler").unlink(missing_ok=True)

    def close(self) -> str:
        """End it; return the log."""
        text = self._log.read_text(errors="replace")
        os.close(self.log)
        os.close(self._fd)
        return text


def make_disk() -> Disk | None:
    """Return a disk; None if this user may not make one."""
    try:
        return Disk()
    except OSError:
        return None


def _mounted() -> int:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*arguments: object) -> int:
        done = libc.syscall(*arguments)
        if done < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return done

    opened = call(_FSOPEN, b"tmpfs", _CLOSE_ON_EXEC)
    try:
        for name, value in ((b"size", SIZE), (b"mode", b"700")):
            call(_FSCONFIG, opened, _SET_STRING, name, value, 0)
        call(_FSCONFIG, opened, _CREATE, None, None, 0)
        return call(_FSMOUNT, opened, _CLOSE_ON_EXEC, 0)
    finally:
        os.close(opened)
