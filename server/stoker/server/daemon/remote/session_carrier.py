"""A carrier: the TCP connection that takes batches to a client on another host.

Its thread owns sending. It sends each batch straight from the mapped slab; the loop only puts jobs
into its queue and watches for the end of the connection. A slot is released once the kernel has
taken its last byte, so the client's ring and not the slab holds what the client keeps.

READY goes with its batch, in the same system call: a message of its own would wake four threads. A
READY that is too long for a packet (digests of very many rows) remains a message.

Invariants: bytes go out in the order of the jobs; at most as many jobs wait as the session has
slots, and one replay. The thread ends when the connection does; `end` makes both end.
"""

import contextlib
import mmap
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from stoker.protocol import messages
from stoker.protocol.codec import MAX_PACKET_BYTES
from stoker.protocol.errors import ResourceError
from stoker.protocol.remote.tcp import HEAD, frame, is_silent

_PART_BYTES: Final = 2**20
_REPORT_S: Final = 0.002
"""While more waits to be sent, the loop is not woken for each batch, but after this time."""
_Job = Callable[[], None]


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _fits(data: bytes) -> bool:
    """Return whether a frame is one that a client reads."""
    return len(data) <= HEAD.size + MAX_PACKET_BYTES


class SessionCarrier:
    """Sends to one session.

    Args of the constructor:
        sock: the connection, attached.
        on_sent: called in the thread with [(slot, generation), ...] of batches that were sent.
        on_end: called in the thread when it can send no more, with the exception if it is a fault
            of the daemon.

    Attributes:
        descriptor: number of the connection's descriptor, until `end`.

    Raises of the constructor:
        ResourceError: the system starts no thread; the connection stays the caller's.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_sent: Callable[[list[tuple[int, int]]], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._sock = sock
        self._on_sent = on_sent
        self._on_end = on_end
        self._slab: memoryview | None = None
        self._slot_bytes = 0
        self._sent: list[tuple[int, int]] = []
        self._told_at = 0.0
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="stoker-carrier", daemon=True)
        self.descriptor = sock.fileno()
        try:
            self._thread.start()
        except RuntimeError as error:
            raise ResourceError(
                f"the daemon cannot start a thread for this session: {error}; raise the limit on"
                " threads (pids.max of its cgroup, ulimit -u, --pids-limit of docker, TasksMax of"
                " systemd) or its memory, or close some sessions"
            ) from None
        sock.setblocking(True)

    def is_silent(self) -> bool:
        """Return whether the client's host is gone, as far as its acknowledgments say."""
        with contextlib.suppress(OSError):  # the thread has closed it
            return is_silent(self._sock)
        return False

    def send(self, record: messages.Record) -> None:
        """Send a record."""
        data = frame(record)
        self._jobs.put(lambda: self._sock.sendall(data))

    def send_error(self, record: messages.Error) -> None:
        """Send an error, without its details if they are too long for a packet."""
        if not _fits(frame(record)):
            record = msgspec.structs.replace(record, details={})
        self.send(record)

    def send_slab(self, record: messages.Slab, descriptor: int) -> None:
        """Map a slab, whose slots are sent from now on, and announce it.

        Raises:
            ResourceError: the system does not map it.
        """
        size_bytes = record.slots * record.slot_bytes
        try:
            memory = mmap.mmap(descriptor, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            raise ResourceError(
                f"the daemon cannot map the {size_bytes} bytes of this session's batches:"
                f" {_reason(error)}; raise its limit on address space (ulimit -v) or on maps"
                " (vm.max_map_count), or lower batch_size or prefetch",
                needed_bytes=size_bytes,
            ) from None
        self._slab, self._slot_bytes = memoryview(memory), record.slot_bytes
        self.send(record)

    def send_batch(self, ready: messages.Ready) -> bool:
        """Send a batch and the READY that announces it; False: the READY needs a message."""
        size_bytes = max(placed.offset + placed.size_bytes for placed in ready.outputs)
        place = ready.slab, ready.slot, ready.generation, size_bytes
        head = frame(messages.Carried(*place, ready))
        whole = _fits(head)
        if not whole:
            head = frame(messages.Carried(*place))
        start = ready.slot * self._slot_bytes
        assert self._slab is not None  # it is sent before OPENED
        part = self._slab[start : start + size_bytes]

        def job() -> None:
            self._send(head, part)
            part.release()
            self._sent.append((ready.slot, ready.generation))

        self._jobs.put(job)
        return whole

    def send_file(self, record: messages.Replayed, descriptor: int) -> None:
        """Send a record and the content of a file; the descriptor stays the caller's.

        Raises:
            ResourceError: the daemon has too many open files.
        """
        try:
            own = os.dup(descriptor)
        except OSError as error:
            raise ResourceError(
                f"the daemon cannot send the replay: {_reason(error)}; raise its limit on open"
                " files (ulimit -n), or close some sessions"
            ) from None

        def job() -> None:
            try:
                self._sock.sendall(frame(record))
                for start in range(0, record.size_bytes, _PART_BYTES):
                    count = min(_PART_BYTES, record.size_bytes - start)
                    self._sock.sendall(os.pread(own, count, start))
            finally:
                os.close(own)

        self._jobs.put(job)

    def ended(self) -> str | None:
        """Return why a readable connection must end: the client has nothing to send any longer."""
        try:
            # The bytes of the connection itself: the thread alone uses the state of TLS.
            data = socket.socket.recv(self._sock, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            return error.strerror or "it failed"
        return "a client sent data on its carrier after Attach" if data else "closed"

    def end(self) -> None:
        """End the connection; the thread closes it. Packets that were not sent yet are lost."""
        with contextlib.suppress(OSError):  # the client was faster
            # Not the method of SSLSocket: after it, the thread would send in plain.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        self._jobs.put(None)

    def join(self) -> None:
        """Wait for the thread, after `end`."""
        self._thread.join()

    def _send(self, head: bytes, part: memoryview) -> None:
        if isinstance(self._sock, ssl.SSLSocket):
            self._sock.sendall(head)
            self._sock.sendall(part)
            return
        sent = self._sock.sendmsg([head, part])
        if sent < len(head):
            self._sock.sendall(head[sent:])
        self._sock.sendall(part[max(0, sent - len(head)) :])

    def _tell(self) -> None:
        """Report what was sent, unless more waits to be sent and the last report is recent."""
        now = time.monotonic()
        if self._sent and (self._jobs.empty() or now - self._told_at >= _REPORT_S):
            self._told_at = now
            sent, self._sent = self._sent, []
            self._on_sent(sent)

    def _work(self) -> None:
        """Run in the thread."""
        try:
            while (job := self._jobs.get()) is not None:
                job()
                self._tell()
        except OSError:
            self._give_up(None)
        except Exception as error:  # a fault of the daemon: it ends this session alone
            self._give_up(error)
        finally:
            self._sock.close()

    def _give_up(self, fault: Exception | None) -> None:
        """Report the end, and wait until the loop watches the connection no longer."""
        self._on_end(fault)
        while self._jobs.get() is not None:
            pass
