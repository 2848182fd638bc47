"""Finds the processes of a daemon on this host, and has them write down their stacks.

It asks the kernel, not the daemon: who listens at the socket, and who its descendants are. So it
works while the daemon hangs. A process that does not catch the signal is left alone, because the
signal would end it. The files are those of `workers.stack_file`; what is read of one is bounded.
"""

import contextlib
import errno
import os
import re
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from stoker.protocol.errors import AccessError, ConnectError
from stoker.server.workers.stack_file import NAME, SIGNAL

MAX_BYTES: Final = 65536
"""Of the stacks of one process; the rest is left out."""
_POLL_S: Final = 0.02
_QUIET_S: Final = 0.1
"""A stack is complete when its file has not grown for so long."""
_CAUGHT: Final = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)
_LINK: Final = f"/memfd:{NAME} "


class ProcessStack(NamedTuple):
    """The stacks of one process.

    Attributes:
        pid: the process.
        parent: its parent.
        text: what `faulthandler` wrote, the most recent call of each thread first; or empty.
        why: why there is none; empty if there is one.
    """

    pid: int
    parent: int
    text: str
    why: str


def listener(path: str, address: str) -> int:
    """Return the process that listens at a socket, also if it does not answer.

    Raises:
        AccessError: this process cannot see it.
        ConnectError: no process listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
        number = sock.connect_ex(path)
        if number:
            remedy = (
                "run the command as the daemon's user or as root"
                if number == errno.EACCES
                else "start one with `stoker serve`"
            )
            raise ConnectError(
                f"no daemon listens at {address}: {os.strerror(number)} ({path}); {remedy}",
                address=address,
            )
        size = struct.calcsize("3i")
        pid, _, _ = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        )
    if pid <= 0:
        raise AccessError(
            f"the daemon at {address} is in a container or namespace whose processes are not"
            " visible here: run the command there",
            address=address,
        )
    return int(pid)


def family(pid: int) -> dict[int, int]:
    """Return a process and its descendants, each with its parent; parents first."""
    found, unseen = {pid: 0}, [pid]
    while unseen:
        one = unseen.pop(0)
        children = [child for child in _children(one) if child not in found]
        found.update(dict.fromkeys(children, one))
        unseen += children
    return found


def stacks_of(processes: Mapping[int, int], deadline_s: float) -> list[ProcessStack]:
    """Return the stacks of processes, once all have written them or the time is over.

    Args:
        processes: pid -> its parent.
        deadline_s: seconds to wait for all of them.

    Raises:
        AccessError: they belong to another user.
    """
    with contextlib.ExitStack() as opened:
        asked = {pid: _Asked(pid, opened) for pid in processes}
        end = time.monotonic() + deadline_s
        while time.monotonic() < end and not all(one.is_done() for one in asked.values()):
            time.sleep(_POLL_S)
        return [
            ProcessStack(pid, parent, *asked[pid].answer(deadline_s))
            for pid, parent in processes.items()
        ]


class _Asked:
    """One process that was asked for its stacks."""

    def __init__(self, pid: int, opened: contextlib.ExitStack) -> None:
        self._file: int | None = None
        self._size, self._since = 0, time.monotonic()
        self._why = "it does not show its stacks"
        try:
            self._file = _stack_file(pid)
            if self._file is None:
                return
            opened.callback(os.close, self._file)
            os.ftruncate(self._file, 0)
            if _catches(pid):
                os.kill(pid, SIGNAL)
                self._why = ""
        except (FileNotFoundError, ProcessLookupError):
            self._file, self._why = None, "it has ended"
        except PermissionError:
            raise AccessError(
                f"process {pid} of the daemon belongs to another user, who alone may see its"
                " stacks: run the command as that user or as root"
            ) from None

    def is_done(self) -> bool:
        """Return whether its stacks are complete, or will not come."""
        if self._why or self._file is None:
            return True
        size, now = os.fstat(self._file).st_size, time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        return size > 0 and now - self._since >= _QUIET_S

    def answer(self, deadline_s: float) -> tuple[str, str]:
        """Return its stacks, and why there are none."""
        if self._why or self._file is None:
            return "", self._why
        text = os.pread(self._file, MAX_BYTES, 0).decode("ascii", "backslashreplace")
        return text, "" if text else f"it did not answer within {deadline_s:g} s"


def _stack_file(pid: int) -> int | None:
    """Return an open descriptor of the file into which a process writes; None: it has none."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if f"{os.readlink(entry)} ".startswith(_LINK):
                return os.open(entry, os.O_RDWR | os.O_CLOEXEC)
    return None


def _catches(pid: int) -> bool:
    """Return whether a process has a handler for the signal, which would end it otherwise."""
    found = _CAUGHT.search(Path(f"/proc/{pid}/status").read_text())
    return found is not None and bool(int(found[1], 16) >> (SIGNAL - 1) & 1)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return found
