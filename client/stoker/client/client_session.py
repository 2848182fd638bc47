"""One session with a daemon: a ZeroMQ DEALER for records, the side socket for memory and liveness.

Runs in the calling thread; nothing here is shared between threads. The side socket is connected
first: if no daemon listens, that fails at once. End of file on it means that the daemon is gone
(`DaemonLostError`), no matter what ZeroMQ reports. Every wait polls both sockets and has a
deadline.

In a forked child the copy of the side socket is closed at once, so that only the process that made
the session keeps it alive; the child touches nothing else.
"""

import contextlib
import math
import os
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import zmq

from stoker.client.address import check_address, socket_path
from stoker.client.introduction import hello
from stoker.client.options.delivery_options import OPEN_REQUEST
from stoker.client.peer_credentials import check_listener
from stoker.client.progress import PipelineWait
from stoker.client.side_socket import as_connect_error, connect_side, forked_error, read_memory
from stoker.protocol.codec import (
    MAX_MESSAGE_BYTES,
    decode_from_daemon,
    decode_packet,
    encode,
    encode_packet,
)
from stoker.protocol.descriptors import (
    check_descriptors,
    check_threads,
    receive_packet,
    send_packet,
)
from stoker.protocol.errors import (
    ClosedError,
    DaemonLostError,
    PeerError,
    ProtocolError,
    from_record,
)
from stoker.protocol.messages import (
    AskReplay,
    AskStatus,
    Attach,
    Attached,
    Building,
    Bye,
    ClientRecord,
    Close,
    DaemonRecord,
    Error,
    Open,
    Opened,
    Replayed,
    SetWorkers,
    Slab,
    Status,
    Welcome,
)

LINGER_MS = 200
LAST_WORDS_MS = 100
MAX_DRAIN = 1024
ZMQ_THREADS = 2
"""I/O threads of each context."""
CONNECTION_DESCRIPTORS = 16
"""More than a connection needs: ZeroMQ's sockets and wake-ups, the side socket, TLS, a slab."""
_EVENTS, _POLLIN, _RCVMORE = int(zmq.EVENTS), int(zmq.POLLIN), int(zmq.RCVMORE)
"""Plain integers: an enum would double the cost of each query."""
Answer = TypeVar("Answer", Welcome, Opened, Status)
_open_sessions: "weakref.WeakSet[ClientSession]" = weakref.WeakSet()

Asked = tuple[int, int, int, int, bool]
"""Arguments of a replay: id, epoch, visit, view, and `stored`."""


class ClientSession:
    """An open session; `open_stream` once, then `send` and `receive`.

    Arriving records go into `inbox`, from which the reader takes one at a time. If an exception
    comes in between (a signal may raise one anywhere), the rest stays there.

    Attributes:
        address: the daemon's address.
        inbox: records from the daemon, in order, not yet handled.
        own_memory: whether batches arrive in memory of this process, not in the daemon's.
        hint: called when the daemon is lost; returns text for the error (a private daemon's log).
    """

    own_memory = False
    _certificate = b""

    def __init__(self, address: str, connect_timeout_s: float, name: str = "") -> None:
        """Connect, send HELLO and attach the side socket.

        Args:
            address: the daemon's.
            connect_timeout_s: time limit for all of it.
            name: the loader's, for the daemon's log.

        Raises:
            UsageError: the address is not one.
            ConnectError: no daemon listens there, the process there is of another user, or no
                answer comes in time.
            VersionError: the daemon speaks another version of the protocol.
            PeerError: the daemon refuses; it sent the error.
            ResourceError: the system starts no more threads, or opens no more files.
        """
        self.address = check_address(address)
        self.hint: Callable[[], str] = str
        self._pid = os.getpid()
        self._name = name
        self._token = b""
        self._lost: str | None = None
        self._closed = False
        self.inbox: deque[DaemonRecord] = deque()
        self._raw: deque[bytes] = deque()
        self._slabs: list[tuple[Slab, int]] = []
        self._replay: tuple[Replayed, int] | None = None
        self._request = OPEN_REQUEST
        self._awaited = 0
        self._attached = False
        self._progress: PipelineWait | None = None
        deadline = time.monotonic() + connect_timeout_s
        check_descriptors(CONNECTION_DESCRIPTORS, "a connection to the daemon")
        self._connect_side(connect_timeout_s, deadline)
        _open_sessions.add(self)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            check_threads(ZMQ_THREADS, "a connection to the daemon")
            self._check_listener(deadline)
            self._connect_dealer()
            with as_connect_error(address, connect_timeout_s):
                self._greet(deadline)
        except BaseException:
            self.close()
            raise

    def _connect_side(self, timeout_s: float, deadline: float) -> None:
        self._side: Any = connect_side(self.address, timeout_s)

    def _check_listener(self, deadline: float) -> None:
        check_listener(socket_path(self.address), self.address, deadline)

    def _connect_dealer(self) -> None:
        self._dealer = self._context.socket(zmq.DEALER)
        self._start_dealer()

    def _start_dealer(self) -> None:
        self._dealer.linger = 0
        self._dealer.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        self._dealer.connect(self.address)
        self._poller = zmq.Poller()
        self._poller.register(self._dealer, zmq.POLLIN)
        self._poller.register(self._side.fileno(), zmq.POLLIN)

    def _greet(self, deadline: float) -> None:
        self.send(hello(self._name, self._certificate))
        welcome = self._answer(Welcome, deadline)
        self._token = welcome.token
        try:
            self._attach(welcome, deadline)
        except TimeoutError:
            raise PeerError("no answer in time") from None
        except OSError:
            self._read_side()  # it may have said why
            self._lost = self._lost or "it closed the connection"
        while not self._attached:
            self._wait(deadline)

    def _attach(self, welcome: Welcome, deadline: float) -> None:
        send_packet(self._side, encode_packet(Attach(self._token)))

    def open_stream(
        self, record: Open, timeout_s: float, progress: PipelineWait | None = None
    ) -> tuple[Opened, int, Slab]:
        """Open a stream; return OPENED, the slab's descriptor (the caller owns it), and SLAB.

        Args:
            record: the request.
            timeout_s: time limit for the answer.
            progress: shows the wait.

        Raises:
            StokerError: the daemon refuses; it sent the error.
            DaemonLostError: the daemon went away.
            PeerError: no answer in time.
        """
        deadline = time.monotonic() + timeout_s
        self.send(record)
        self._progress = progress
        try:
            opened = self._answer(Opened, deadline)
        finally:
            self._progress = None
        if opened.request != record.request:
            raise ProtocolError(
                f"expected OPENED for request {record.request}, got one for {opened.request}"
            )
        while not self._slabs:
            self._wait(deadline)
        slab, descriptor = self._slabs.pop()
        return opened, descriptor, slab

    def ask_replay(self, asked: Asked, timeout_s: float) -> bytes:
        """Ask for a replay of the open stream; return its bytes.

        Other records that arrive meanwhile stay in the inbox.

        Raises:
            StokerError: the daemon refuses, or the sample cannot be replayed; it sent the error.
            DaemonLostError: the daemon went away.
            PeerError: no answer in time.
        """
        deadline = time.monotonic() + timeout_s
        self._request += 1
        self.send(AskReplay(self._request, *asked))
        self._awaited = self._request
        try:
            while self._replay is None:
                self._wait(deadline)
                self.poll()
                self._raise_refusal()
            made, descriptor = self._replay
            return read_memory(descriptor, made.size_bytes)
        finally:
            self._awaited = 0
            self._drop_replay()

    def ask_status(self, timeout_s: float) -> Status:
        """Ask for the counters, sessions and names of the daemon; no stream may be open.

        Raises:
            DaemonLostError: the daemon went away.
            PeerError: no answer in time.
        """
        self.send(AskStatus(sessions=True))
        return self._answer(Status, time.monotonic() + timeout_s)

    def resize(self, workers: int, timeout_s: float) -> Status:
        """Ask for another number of workers; no stream may be open.

        Raises:
            AccessError: this user may not.
            UsageError: the number is out of range.
            DaemonLostError: the daemon went away.
            PeerError: no answer in time, or the daemon is too old.
        """
        self.send(SetWorkers(workers))
        return self._answer(Status, time.monotonic() + timeout_s)

    def _raise_refusal(self) -> None:
        """Raise the error that answers the pending replay, if it is in the inbox."""
        for number, record in enumerate(self.inbox):
            if isinstance(record, Error) and record.request == self._awaited:
                del self.inbox[number]
                raise from_record(record.code, record.message, record.details)

    def _is_late(self, record: DaemonRecord) -> bool:
        """Return whether a record answers a replay that no caller waits for any longer."""
        if not isinstance(record, Error):
            return False
        return record.request > OPEN_REQUEST and record.request != self._awaited

    def _drop_replay(self) -> None:
        if self._replay is not None:
            os.close(self._replay[1])
            self._replay = None

    def send(self, *records: ClientRecord) -> None:
        """Send records as one message.

        Raises:
            ClosedError: the session was closed.
            PeerError: the daemon accepts no more messages.
        """
        self._check_usable()
        try:
            self._send_message(encode(self._token, records))
        except zmq.Again:
            raise PeerError(
                f"the daemon at {self.address} does not read its messages; see its log"
            ) from None

    def _send_message(self, data: bytes) -> None:
        self._dealer.send(data, zmq.NOBLOCK)

    def receive(self, deadline: float) -> None:
        """Wait until something is in the inbox.

        Raises:
            DaemonLostError: the daemon went away.
            PeerError: nothing arrived until the deadline (of `time.monotonic`).
        """
        if self._lost is not None:
            self.poll()  # what arrived before the end counts
        while not self.inbox:
            self._wait(deadline)
            self.poll()

    def poll(self) -> None:
        """Move all messages that have arrived into the inbox, without waiting."""
        self._check_usable()
        try:
            # This query costs a third of a failing attempt to receive.
            while len(self._raw) < MAX_DRAIN and self._has_message():
                self._raw.append(self._dealer.recv(zmq.NOBLOCK))
                if self._dealer.getsockopt(_RCVMORE):
                    raise ProtocolError("expected messages of one frame")
        except zmq.Again:
            pass
        while self._raw:
            records = decode_from_daemon(self._raw.popleft())[1]
            self._admit([record for record in records if not self._is_late(record)])

    def _admit(self, records: Iterable[DaemonRecord]) -> None:
        """Put records into the inbox."""
        self.inbox.extend(records)

    def _has_message(self) -> bool:
        return bool(int(self._dealer.getsockopt(_EVENTS)) & _POLLIN)

    def handle_record(self, record: DaemonRecord) -> None:
        """Handle a record that concerns the whole session: note BYE, raise an error.

        After BYE the daemon no longer knows the session: it answers messages that were still on
        their way with ERROR `protocol`, which is ignored then. A daemon that replaces a dead one
        answers in the same way: ZeroMQ connects to it by itself, and it does not know the session.
        Any other error has the reason for the end, so it is raised also if the end is known.
        """
        if isinstance(record, Bye):
            self._lost = f"it shut down: {record.reason}"
        elif (
            isinstance(record, Error)
            and record.run is None
            and (record.code != ProtocolError.code or not self._is_lost())
        ):
            raise from_record(record.code, record.message, record.details)

    def _is_lost(self) -> bool:
        """Return whether the daemon of this session is gone, as far as the side socket shows."""
        if self._lost is None:
            self._read_side()
        return self._lost is not None

    def _answer(self, kind: type[Answer], deadline: float) -> Answer:
        while True:
            self.receive(deadline)
            record = self.inbox.popleft()
            self.handle_record(record)
            if isinstance(record, Building) and self._progress is not None:
                self._progress.note(record.done, record.total)
            if isinstance(record, kind):
                return record

    def _wait(self, deadline: float) -> None:
        """Wait until a socket has something to read or progress is due; read the side socket."""
        if self._lost is not None:
            raise self._lost_error()
        shown_s = math.inf if self._progress is None else self._progress.show()
        left_s = deadline - time.monotonic()
        events = dict(self._poller.poll(max(math.ceil(min(left_s, shown_s) * 1000), 0)))
        if self._side.fileno() in events:
            self._read_side()
        elif not events and left_s <= shown_s:
            raise PeerError(
                f"the daemon at {self.address} is there but did not answer in time; see its log, "
                "or give the Loader a longer timeout_s"
            )

    def _read_side(self) -> None:
        try:
            data, descriptor = receive_packet(self._side)
        except BlockingIOError:
            return
        except ConnectionError:
            data, descriptor = self._last_packet()
        if not data:
            self._lost = "it closed the connection"
            self._await_last_words()
            return
        try:
            packet = decode_packet(data)
            if isinstance(packet, Slab) and descriptor is not None:
                self._slabs.append((packet, descriptor))
                descriptor = None
            elif isinstance(packet, Replayed) and descriptor is not None:
                if packet.request == self._awaited and self._replay is None:
                    self._replay, descriptor = (packet, descriptor), None
            elif isinstance(packet, Attached) and descriptor is None:
                self._attached = True
            elif isinstance(packet, Error):
                raise from_record(packet.code, packet.message, packet.details)
            else:
                raise ProtocolError(f"unexpected record {type(packet).__name__} on the side socket")
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _last_packet(self) -> tuple[bytes, int | None]:
        """Return what came before a reset: the daemon closed its end with our packet unread."""
        with contextlib.suppress(OSError):
            return receive_packet(self._side)
        return b"", None

    def _await_last_words(self) -> None:
        self._dealer.poll(LAST_WORDS_MS)  # its reason may still be on its way

    def _lost_error(self) -> DaemonLostError:
        # Records that arrived before the end are still there: the reason, or batches.
        return DaemonLostError(
            f"the daemon at {self.address} went away ({self._lost}). Batches already handed out "
            "stay valid. Start the daemon again, make a new Loader and give it the last "
            "state_dict(): it continues with the same bytes" + self.hint(),
            address=self.address,
        )

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise forked_error(self._pid)
        if self._closed:
            raise ClosedError("the session was closed")

    def close(self) -> None:
        """End the session; does nothing a second time, or in a forked child."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        for _, descriptor in self._slabs:
            os.close(descriptor)
        self._slabs.clear()
        self._drop_replay()
        try:
            if self._token and self._lost is None:
                with contextlib.suppress(zmq.ZMQError):
                    self._dealer.linger = LINGER_MS
                    self._dealer.send(encode(self._token, [Close()]), zmq.NOBLOCK)
        finally:
            self._context.destroy()  # the socket keeps its linger
            self._close_side()

    def _close_side(self) -> None:
        with contextlib.suppress(OSError):
            self._side.shutdown(socket.SHUT_RDWR)
        self._side.close()


def _close_in_child() -> None:
    for session in list(_open_sessions):
        session._side.close()


os.register_at_fork(after_in_child=_close_in_child)
