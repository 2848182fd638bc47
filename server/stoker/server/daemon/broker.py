"""The ZeroMQ side of the daemon: a ROUTER socket, drained in bulk when its descriptor is readable.

Runs on the daemon's loop and never waits. Sessions are named by token. A token is valid only on the
connection (routing id) that got it with WELCOME. A peer that guessed, saw or kept another token
gets a typed error, and so does a peer whose message breaks the grammar or a bound. Other peers do
not notice; the log is rate-limited.

ZeroMQ's descriptor is edge-triggered: it becomes readable when something has changed, not while
messages are waiting, and *any* call on the socket may consume the edge. So `readable` asks the
socket itself, and the loop calls `readable` before it sleeps.

Decoding a message takes a few milliseconds at worst, for any content. The generic decoder builds
objects before it checks their types, at about 70 us per KiB in the worst case, so it gets only
messages of up to `SMALL_BYTES`. The only record that may be larger is OPEN with a graph; a larger
message is decoded directly into that type and rejected at the first byte that does not fit.

Connections that are not sessions' are closed after a while (`connections`).

Sends never wait either. A peer that is gone, or that has left `SEND_HIGH_WATER` messages unread, is
lost: `send` returns False, and the daemon ends the session.
"""

import errno
import os
import socket as unix
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec
import zmq

from stoker.protocol import codec, messages, version
from stoker.protocol.analysis import analyzed
from stoker.protocol.descriptors import check_threads
from stoker.protocol.errors import ProtocolError, ResourceError, StokerError
from stoker.protocol.remote.tcp import MAX_FRAME_BYTES
from stoker.server.daemon.connections import Connections, ZmqConnection
from stoker.server.daemon.guard import Guard, session_failed
from stoker.server.daemon.remote.tcp_listener import TcpListener
from stoker.server.daemon.remote.zap_authenticator import ZapAuthenticator
from stoker.server.daemon.socket_folder import SocketFolder
from stoker.server.settings import logs

SEND_HIGH_WATER: Final = 1024
RECEIVE_HIGH_WATER: Final = 64
MAX_DRAIN: Final = 256
DRAIN_BUDGET_S: Final = 0.002
SMALL_BYTES: Final = 65536
MAX_BYTES: Final = 3 * 2**19  # a graph of 1 MiB, 1024 frozen streams, and the rest of OPEN
MAX_FRAMES: Final = MAX_BYTES // MAX_FRAME_BYTES
FLUSH_MS: Final = 250
BACKLOG: Final = 16
"""Connections that wait to be accepted; a client that finds no room tries again."""
_SEND_CHUNK = 256
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
"""Plain integers: an enum would double the cost of each query."""
_FIRST: Final = zmq.NOBLOCK | zmq.SNDMORE

_Large = tuple[int, messages.Token, Annotated[list[messages.Open], msgspec.Meta(max_length=1)]]
_decode_large = msgspec.msgpack.Decoder(analyzed(_Large)).decode

OnHello = Callable[[bytes, messages.Hello, str, str], None]
OnRecords = Callable[[bytes, tuple[messages.ClientRecord, ...]], None]


class Broker:
    """Receives from and sends to clients.

    Args of the constructor:
        place: where to bind; it owns the socket's file.
        on_hello: called with (routing id, HELLO, the peer's process, its key in hex or "").
        on_records: called with (token, records) of a known session.
        now: monotonic seconds.
        guard: of unexpected exceptions; they end the connection of the message.
        on_failed: called with the token of a session whose message raised one.
        facts_of: returns what a log line says about the client of a session.
        tcp: where to listen too, for other hosts.

    Attributes:
        connections: its connections.
        refused_messages: number of messages that broke the protocol.
    """

    def __init__(
        self,
        place: SocketFolder,
        on_hello: OnHello,
        on_records: OnRecords,
        now: Callable[[], float],
        guard: Guard,
        on_failed: Callable[[bytes], None],
        facts_of: Callable[[bytes], Mapping[str, object]],
        tcp: TcpListener | None = None,
    ) -> None:
        self._on_hello = on_hello
        self._on_records = on_records
        self._now = now
        self._guard = guard
        self._on_failed = on_failed
        self.facts_of = facts_of
        self._peers: dict[bytes, bytes] = {}
        self._tokens: dict[bytes, bytes] = {}
        self._greeting: set[bytes] = set()
        self._connected: dict[bytes, ZmqConnection | None] = {}
        self._keys: dict[bytes, str] = {}
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self.refused_messages = 0
        check_threads(2, "the daemon's sockets")
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.ROUTER)
        self._descriptor = int(self._socket.get(zmq.FD))  # the same for the socket's life
        self.connections = Connections(self._socket, now)
        try:
            self._bind(place)
            if tcp is not None:
                if tcp.access is not None:
                    ZapAuthenticator(self._context, tcp.access).guard(self._socket)
                tcp.bind(self._socket)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return ZeroMQ's descriptor; see the module docstring before waiting on it."""
        return self._descriptor

    def readable(self) -> bool:
        """Return whether messages are waiting; must be called before every sleep."""
        return bool(int(self._socket.get(_EVENTS)) & _POLLIN)

    def drain(self) -> None:
        """Receive messages and pass their records on: at most `MAX_DRAIN`, for `DRAIN_BUDGET_S`."""
        until = self._now() + DRAIN_BUDGET_S
        for _ in range(MAX_DRAIN):
            if not self.readable():  # costs a third of a failing attempt to receive
                return
            try:
                frames = self._receive()
            except zmq.Again:
                return
            if not self._guard.run("message", self._take, *frames):
                self._fail(frames[0])
            if self._now() >= until:
                return

    def send(self, token: bytes, records: Sequence[messages.DaemonRecord]) -> bool:
        """Send records to a session; False if it is unknown or gone, or does not read."""
        peer = self._peers.get(token)
        return peer is not None and self._send(peer, token, records)

    def send_peer(
        self, peer: bytes, records: Sequence[messages.DaemonRecord], token: bytes = b""
    ) -> bool:
        """Send records to a peer; with a token, the peer is that session from now on."""
        self._greeting.discard(peer)
        if token:
            self._peers[token], self._tokens[peer] = peer, token
            self.connections.is_session(self._connected.get(peer))
        else:
            self._connected.pop(peer, None)
            self._keys.pop(peer, None)
        return self._send(peer, token, records)

    def forget(self, token: bytes) -> None:
        """Forget a session; its token becomes void."""
        peer = self._peers.pop(token, None)
        if peer is not None:
            self._tokens.pop(peer, None)
            self._keys.pop(peer, None)
            self.connections.is_idle(self._connected.pop(peer, None))

    def with_other_keys(self, is_allowed: Callable[[str], bool]) -> list[bytes]:
        """Return the tokens of sessions whose clients have a key (hex) that is not allowed."""
        return [
            token
            for token, peer in self._peers.items()
            if (key := self._keys.get(peer)) and not is_allowed(key)
        ]

    def close(self) -> None:
        """Flush for at most `FLUSH_MS`, then close."""
        self.connections.close()
        self._socket.close(linger=FLUSH_MS)
        self._context.term()

    def _bind(self, place: SocketFolder) -> None:
        socket = self._socket
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        socket.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER)
        socket.setsockopt(zmq.RCVHWM, RECEIVE_HIGH_WATER)
        listener = place.listen("", unix.SOCK_STREAM, BACKLOG)
        descriptor = listener.detach()
        try:
            socket.setsockopt(zmq.USE_FD, descriptor)
            socket.bind(f"ipc://{place.path}")
        except zmq.ZMQError as error:
            os.close(descriptor)
            raise ResourceError(f"socket {place.path}: {error.strerror}", path=place.path) from None

    def _receive(self) -> tuple[bytes, bytes | None, zmq.Frame | None]:
        """Return (routing id, message, its first frame); None for a message that is too long.

        The frame of a message from a session is not needed, so it is None too: it costs more.
        """
        peer: bytes = self._socket.recv(zmq.NOBLOCK)  # put before each message by ROUTER
        data: bytes | None
        frame: zmq.Frame | None = None
        if peer in self._tokens:
            data = self._socket.recv()
        else:
            frame = self._socket.recv(copy=False)
            data = frame.bytes
        if self._socket.getsockopt(zmq.RCVMORE):
            data = self._rest(data)
        return peer, data, frame

    def _rest(self, first: bytes) -> bytes | None:
        """Receive the other frames of a message; return all in one, None if that is too long."""
        parts, size_bytes = [first], len(first)
        while self._socket.getsockopt(zmq.RCVMORE):
            part = self._socket.recv()
            size_bytes += len(part)
            if size_bytes <= MAX_BYTES and len(parts) < MAX_FRAMES:
                parts.append(part)
            else:
                size_bytes = MAX_BYTES + 1  # the frames that follow are dropped
        return b"".join(parts) if size_bytes <= MAX_BYTES else None

    def _take(self, peer: bytes, data: bytes | None, frame: zmq.Frame | None) -> None:
        try:
            if data is None:
                raise ProtocolError(
                    f"expected a message of at most {MAX_FRAMES} frames and {MAX_BYTES} bytes"
                )
            token, records = _decode(data)
            if token:
                self._take_from_session(peer, token, records)
            else:
                self._take_hello(peer, records, frame)
        except StokerError as error:
            self._refuse(peer, error)

    def _take_from_session(
        self, peer: bytes, token: bytes, records: list[messages.ClientRecord]
    ) -> None:
        if self._peers.get(token) != peer:
            raise ProtocolError(
                "this token belongs to no session on this connection: the session ended, or the"
                " connection was lost; connect again with HELLO"
            )
        if any(isinstance(record, messages.Hello) for record in records):
            raise ProtocolError(
                "expected HELLO only as the first record of a connection, without a token"
            )
        self._on_records(token, tuple(records))

    def _take_hello(
        self, peer: bytes, records: list[messages.ClientRecord], frame: zmq.Frame | None
    ) -> None:
        if len(records) != 1 or not isinstance(records[0], messages.Hello):
            raise ProtocolError("expected HELLO alone as the first message of a connection")
        if peer in self._tokens or peer in self._greeting:
            raise ProtocolError("expected one HELLO per connection, got a second one")
        assert frame is not None  # it is not a session's
        self._greeting.add(peer)
        self._connected[peer] = self.connections.claim(int(frame.get("__fd")))
        key = _key(frame)
        if key:
            self._keys[peer] = key
        self._on_hello(peer, records[0], str(frame.get("Peer-Address")), key)

    def _fail(self, peer: bytes) -> None:
        """End what a peer has here, because its message raised."""
        token = self._tokens.get(peer)
        if token is not None:
            self._on_failed(token)
            return
        code, message, details = session_failed().to_record()
        self.send_peer(peer, [messages.Error(0, code, message, details)])

    def _refuse(self, peer: bytes, error: StokerError) -> None:
        self.refused_messages += 1
        suppressed = self._log_limit.allow("message", self._now())
        if suppressed is not None:
            facts = self.facts_of(self._tokens.get(peer, b""))
            logs.log(
                "warning", "message_refused", **facts, reason=error.message, suppressed=suppressed
            )
        code, message, details = error.to_record()
        self._send(peer, b"", [messages.Error(0, code, message, details)])

    def _send(self, peer: bytes, token: bytes, records: Iterable[messages.DaemonRecord]) -> bool:
        for data in _encoded(token, list(records)):
            try:
                self._socket.send(peer, _FIRST)  # fails if the message cannot be sent
                self._socket.send(data, zmq.NOBLOCK)
            except zmq.ZMQError as error:
                if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                    raise
                return False
        return True


def _key(frame: zmq.Frame) -> str:
    """Return the key of the client that sent a frame; empty if its connection needs none."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""


def _encoded(token: bytes, records: list[messages.DaemonRecord]) -> Iterator[bytes]:
    """Yield messages of records, none longer than a client accepts."""
    for start in range(0, len(records), _SEND_CHUNK):
        part = records[start : start + _SEND_CHUNK]
        data = codec.encode(token, part)
        if len(data) <= codec.MAX_MESSAGE_BYTES or len(part) == 1:
            yield data
        else:
            half = len(part) // 2
            yield from _encoded(token, part[:half])
            yield from _encoded(token, part[half:])


def _decode(data: bytes) -> tuple[bytes, list[messages.ClientRecord]]:
    """Decode an envelope from a client.

    Raises:
        ProtocolError: the envelope breaks the grammar or a bound.
        VersionError: the envelope has another wire version.
    """
    if len(data) <= SMALL_BYTES:
        return codec.decode_from_client(data)
    try:
        wire, token, records = _decode_large(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProtocolError(
            f"expected OPEN alone in a message of more than {SMALL_BYTES} bytes: {error}"
        ) from None
    if wire != version.WIRE:
        raise ProtocolError(f"expected wire version {version.WIRE}, got {wire}")
    return token, [*records]
