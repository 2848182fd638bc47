"""The client's end of the carrier: a TCP connection, and the thread that reads it.

The thread receives batches straight into the ring, so they arrive while the caller computes. It
puts arrivals into a queue and signals an eventfd on which the session waits. The caller's thread
alone takes from the queue. Nothing received is used before its bounds are checked. At the first
violation of the protocol, or at the end of the connection, the thread ends, and queues the reason.
"""

import contextlib
import os
import queue
import socket
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from stoker.client.remote.ring import Ring
from stoker.protocol.codec import decode_packet
from stoker.protocol.errors import (
    MORE_FILES,
    AccessError,
    ConnectError,
    PeerError,
    ProtocolError,
    ResourceError,
    StokerError,
)
from stoker.protocol.messages import Attach, Attached, Carried, Error, Replayed, Slab
from stoker.protocol.remote.tcp import HEAD, TcpAddress, frame, packet_length, watch_link

if TYPE_CHECKING:
    from stoker.client.remote.tls_stream import TlsStream
    from stoker.protocol.remote.tls import Identity

JOIN_S: Final = 5.0
_PART_BYTES: Final = 2**20


class ReceivedBatch(NamedTuple):
    """A batch that has arrived in a slot of the ring."""

    carried: Carried
    slot: int


class File(NamedTuple):
    """A replay that has arrived; the taker closes the descriptor."""

    record: Replayed
    descriptor: int


class Ended(NamedTuple):
    """The connection has ended: an error of the protocol, or why it closed."""

    reason: str
    error: PeerError | None


Arrived = Attached | Slab | Error | ReceivedBatch | File | Ended


def connect(address: TcpAddress, timeout_s: float) -> socket.socket:
    """Connect to the carrier of a daemon.

    Raises:
        ConnectError: no daemon listens there, or the host does not answer in time.
    """
    try:
        sock = socket.create_connection((address.host, address.carrier_port), max(timeout_s, 0.001))
    except OSError as error:
        raise ConnectError(
            f"no daemon listens at {address}: {error.strerror or 'no answer in time'} (port"
            f" {address.carrier_port}, for batches). Start one there with `stoker serve --tcp`, and"
            f" let its ports {address.port} and {address.carrier_port} through the firewall",
            address=str(address),
        ) from None
    watch_link(sock)
    sock.settimeout(None)
    return sock


class Carrier:
    """A connected carrier."""

    def __init__(self, sock: socket.socket, where: TcpAddress) -> None:
        """Take a connection.

        Raises:
            ResourceError: this process has too many open files.
        """
        self._sock = sock
        self._stream: socket.socket | TlsStream = sock
        self._where = where
        self._pid = os.getpid()
        self._queue: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        try:
            self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError as error:
            sock.close()
            raise ResourceError(
                f"this process cannot open a connection for batches: {error.strerror}; raise its"
                f" limit on open files ({MORE_FILES})"
            ) from None
        self._ring: Ring | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="stoker-carrier", daemon=True)

    def protect(self, identity: "Identity", daemon: bytes, deadline: float) -> None:
        """Make the connection TLS, before `attach`.

        Args:
            identity: of this client.
            daemon: the daemon's certificate (DER).
            deadline: of `time.monotonic`.

        Raises:
            AccessError: the other side has another certificate.
            OSError: the connection ended.
        """
        import ssl  # noqa: PLC0415 - connections without keys need not load it

        from stoker.client.remote.tls_stream import TlsStream  # noqa: PLC0415
        from stoker.protocol.remote.tls import client_context  # noqa: PLC0415

        try:
            self._stream = TlsStream(self._sock, client_context(identity, daemon), deadline)
        except ssl.SSLCertVerificationError:
            raise AccessError(
                f"port {self._where.carrier_port} of {self._where.host} has another certificate"
                f" than the daemon at {self._where}: another program has that port, or the"
                " connection is intercepted",
                address=str(self._where),
            ) from None
        self._sock.settimeout(None)

    def start(self) -> None:
        """Begin to receive.

        Raises:
            ResourceError: the system starts no thread.
        """
        try:
            self._thread.start()
        except RuntimeError as error:
            raise ResourceError(
                f"this process cannot start the thread that receives batches: {error}; raise the"
                " limit on threads (pids.max of its cgroup, ulimit -u, --pids-limit of docker) or"
                " its memory"
            ) from None

    def fileno(self) -> int:
        """Return the descriptor that is readable when something has arrived."""
        return self._bell

    def attach(self, token: bytes) -> None:
        """Send Attach, before `start`.

        Raises:
            OSError: the connection has ended.
        """
        self._stream.sendall(frame(Attach(token)))

    def use(self, ring: Ring) -> None:
        """Receive batches into a ring; call it before the first SEEK."""
        self._ring = ring

    def has_arrived(self) -> bool:
        """True if something has arrived since the last call of `arrived`; the check is cheap."""
        return not self._queue.empty()

    def arrived(self) -> list[Arrived]:
        """Return what has arrived since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        found: list[Arrived] = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._queue.get_nowait())
        return found

    def close(self) -> None:
        """End the connection and the thread; in a forked child, only close the descriptors."""
        if self._closed:
            return
        self._closed = True
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            if self._ring is not None:
                self._ring.close()
            if self._thread.ident is not None:
                self._thread.join(JOIN_S)
            for item in self.arrived():
                if isinstance(item, File):
                    os.close(item.descriptor)
        self._sock.close()
        os.close(self._bell)

    def _work(self) -> None:
        """Run in the thread."""
        reason, error = "it closed the connection", None  # type: str, PeerError | None
        try:
            while (item := self._receive()) is not None:
                self._put(item)
        except OSError as failure:
            reason = f"the connection failed: {failure.strerror or failure}"
        except StokerError as failure:
            reason, error = failure.message, ProtocolError(failure.message)
        except Exception as failure:  # the session must not wait for a thread that has ended
            reason = f"receiving failed: {type(failure).__name__}: {failure}"
            error = PeerError(f"the daemon at {self._where} was lost: {reason}")
        self._put(Ended(reason, error))

    def _put(self, item: Arrived) -> None:
        self._queue.put(item)
        os.eventfd_write(self._bell, 1)

    def _receive(self) -> Arrived | None:
        """Return what comes next; None at the end."""
        head = bytearray(HEAD.size)
        if not self._fill(memoryview(head), may_end=True):
            return None
        data = bytearray(packet_length(bytes(head)))
        self._fill(memoryview(data))
        record = decode_packet(bytes(data))
        if isinstance(record, Carried):
            return self._receive_batch(record)
        if isinstance(record, Replayed):
            return self._receive_file(record)
        if isinstance(record, Attach):
            raise ProtocolError("unexpected record Attach on the carrier")
        return record

    def _receive_batch(self, record: Carried) -> ReceivedBatch | None:
        if self._ring is None:
            raise ProtocolError("the daemon sent a batch before the stream was open")
        slot = self._ring.take()
        if slot is None:
            return None  # this side closes
        self._fill(self._ring.part(slot, record.size_bytes))
        return ReceivedBatch(record, slot)

    def _receive_file(self, record: Replayed) -> File:
        descriptor = os.memfd_create("stoker-replay", os.MFD_CLOEXEC)
        try:
            part, left = bytearray(_PART_BYTES), record.size_bytes
            while left:
                view = memoryview(part)[: min(left, _PART_BYTES)]
                self._fill(view)
                os.pwrite(descriptor, view, record.size_bytes - left)
                left -= len(view)
        except BaseException:
            os.close(descriptor)
            raise
        return File(record, descriptor)

    def _fill(self, view: memoryview, *, may_end: bool = False) -> bool:
        """Receive as many bytes as fit; False at the end, if it may be there."""
        done = 0
        while done < len(view):
            rest = view[done:]
            count = self._stream.recv_into(rest, len(rest), socket.MSG_WAITALL)
            if not count:
                if may_end and not done:
                    return False
                raise ConnectionResetError(0, "it ended in the middle of a batch or record")
            done += count
        return True
