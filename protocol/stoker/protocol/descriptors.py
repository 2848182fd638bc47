"""System calls of both sides: descriptors passed over Unix sockets, waiting, threads.

One packet carries one record and at most one descriptor. A received descriptor belongs to the
receiver and is close-on-exec; unexpected descriptors are closed at once.
"""

import array
import contextlib
import errno
import math
import os
import resource
import select
import socket
import struct
import threading

from stoker.protocol.codec import MAX_PACKET_BYTES
from stoker.protocol.errors import MORE_FILES, ProtocolError, ResourceError

MORE_PROCESSES = (
    "raise the limit on processes and threads (ulimit -u, TasksMax of systemd, --pids-limit of"
    " docker), or end other processes"
)
"""The remedy if the system starts no process or thread."""
NO_PROCESS = frozenset((errno.EAGAIN, errno.ENOMEM))
"""Why a fork fails at a limit."""
_INT = array.array("i").itemsize
_ROOM = socket.CMSG_SPACE(4 * _INT)
_CUT_OFF = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
"""A plain integer: operators of an enum take longer than the rest of a call."""
_CREDENTIALS = struct.Struct("3i")


def send_packet(sock: socket.socket, data: bytes, descriptor: int | None = None) -> None:
    """Send one packet, with a descriptor if given; the sender keeps its own copy open.

    Raises:
        OSError: the peer has gone away or its buffer is full.
    """
    extra = []
    if descriptor is not None:
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    sock.sendmsg([data], extra, socket.MSG_NOSIGNAL)


def receive_packet(sock: socket.socket) -> tuple[bytes, int | None]:
    """Receive one packet: (data, descriptor or None); empty data means that the peer has gone away.

    Raises:
        ProtocolError: the packet is too long or carries several descriptors.
        ResourceError: this process has too many open files to take the descriptor, which is lost.
        BlockingIOError: the socket is non-blocking and nothing has arrived.
    """
    data, ancillary, flags, _ = sock.recvmsg(MAX_PACKET_BYTES, _ROOM, socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % _INT])
            descriptors.extend(numbers)
    if flags & _CUT_OFF == socket.MSG_CTRUNC and not descriptors:  # there was room for several
        raise _too_many_files("a file from another process")
    if flags & _CUT_OFF or len(descriptors) > 1:
        for descriptor in descriptors:
            os.close(descriptor)
        raise ProtocolError(
            f"expected one packet of at most {MAX_PACKET_BYTES} bytes with at most one descriptor"
        )
    return data, descriptors[0] if descriptors else None


def await_readable(descriptor: int | socket.socket, timeout_s: float | None) -> bool:
    """Return whether a descriptor is readable or hung up.

    select(2) would refuse descriptors above 1,023.

    Args:
        descriptor: a number or a socket.
        timeout_s: for how many seconds to wait; None: without an end.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else max(0, math.ceil(timeout_s * 1000))))


def check_threads(count: int, what: str) -> None:
    """Check that this process can start threads; ZeroMQ ends the process where it cannot.

    Args:
        count: how many.
        what: needs them, in words.

    Raises:
        ResourceError: it cannot.
    """
    end, started = threading.Event(), []
    try:
        for _ in range(count):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        raise too_few_threads(what) from None
    finally:
        end.set()
        for thread in started:
            thread.join()


def check_descriptors(count: int, what: str) -> None:
    """Check that this process can open files; ZeroMQ ends the process where it cannot.

    Args:
        count: how many.
        what: needs them, in words.

    Raises:
        ResourceError: it cannot.
    """
    with contextlib.ExitStack() as opened:
        try:
            for _ in range(count):
                opened.callback(os.close, os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            raise _too_many_files(what) from None


def _too_many_files(what: str) -> ResourceError:
    """Return the error for something that needs a descriptor which cannot be opened."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return ResourceError(
        f"{what}: process {os.getpid()} has too many open files, of at most {most}; raise the limit"
        f" ({MORE_FILES}), or close files"
    )


def too_few_threads(what: str) -> ResourceError:
    """Return the error for something that needs a thread which cannot be started."""
    return ResourceError(f"{what}: the system starts no more threads; {MORE_PROCESSES}")


def peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """Return (pid, uid, gid) of the process that connected; pid is 0 across pid namespaces."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return pid, uid, gid
