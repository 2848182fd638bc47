"""The client's end of TLS, against OpenSSL at the other end of a socket pair, without daemons."""

import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import pytest

from stoker.client.remote.tls_stream import READ_BYTES, TlsStream
from stoker.protocol.remote.tls import Identity, client_context, daemon_context, make_identity

RECORD_BYTES = 2**14
DEADLINE_S = 30.0
DATA = random.Random(7).randbytes(2 * READ_BYTES + 12345)
Make = Callable[[], "Pair"]


class Portions:
    """A socket that receives at most some bytes at a time, and counts how often it is asked."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.most, self.calls = sock, READ_BYTES, 0
        self.sendall = sock.sendall

    def recv_into(self, view: memoryview) -> int:
        self.calls += 1
        return self.sock.recv_into(view[: self.most])


class Pair:
    """A stream, and the daemon's end, whose encrypted bytes the test sends as it wants."""

    def __init__(self, own: Identity, daemon: Identity) -> None:
        here, self.far = socket.socketpair()
        self.portions = Portions(here)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = daemon_context(daemon, [own.certificate])
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        for sock in (here, self.far):
            sock.settimeout(DEADLINE_S)
        self.refusal: Exception | None = None

    def connect(self, context: ssl.SSLContext) -> TlsStream:
        """Make the handshake; the daemon's part is done in a thread."""
        thread = threading.Thread(target=self._answer)
        thread.start()
        try:
            return TlsStream(self.portions, context)
        finally:
            thread.join()

    def encrypted(self, data: bytes) -> bytes:
        """Return what carries these bytes."""
        for start in range(0, len(data), RECORD_BYTES):
            self.tls.write(data[start : start + RECORD_BYTES])
        return self._outgoing.read()

    def goodbye(self) -> bytes:
        """Return what carries close_notify."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self._outgoing.read()

    def read(self, count: int) -> bytes:
        """Return `count` bytes that the stream has sent."""
        found = b""
        while len(found) < count:
            try:
                found += self.tls.read(count - len(found))
            except ssl.SSLWantReadError:
                self._incoming.write(self.far.recv(READ_BYTES))
        return found

    def close(self) -> None:
        self.portions.sock.close()
        self.far.close()

    def _answer(self) -> None:
        try:
            while True:
                try:
                    self.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self.far.sendall(self._outgoing.read())
                    self._incoming.write(self.far.recv(READ_BYTES))
            self.far.sendall(self._outgoing.read())
        except ssl.SSLError as error:
            self.refusal = error
            self.far.sendall(self._outgoing.read())
            self.far.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def identities() -> tuple[Identity, Identity]:
    """The client's and the daemon's."""
    return make_identity("client"), make_identity("daemon")


@pytest.fixture
def pair(identities: tuple[Identity, Identity]) -> Iterator[Pair]:
    made = Pair(*identities)
    yield made
    made.close()


@pytest.fixture
def stream(pair: Pair, identities: tuple[Identity, Identity]) -> TlsStream:
    own, daemon = identities
    return pair.connect(client_context(own, daemon.certificate))


def received(stream: TlsStream, count: int) -> bytes:
    memory = memoryview(bytearray(count))
    return bytes(memory[: stream.recv_into(memory, count)])


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_many_records_arrive_in_one_memory(stream, pair):
    """More than fits into one call and into the buffers of the socket."""
    thread = in_thread(lambda: pair.far.sendall(pair.encrypted(DATA)))
    assert received(stream, len(DATA)) == DATA
    thread.join()


def test_one_call_takes_all_records_that_have_arrived(stream, pair):
    data = DATA[: 4 * RECORD_BYTES]
    pair.far.sendall(pair.encrypted(data))
    before = pair.portions.calls
    assert [received(stream, count) for count in (3, RECORD_BYTES, 2 * RECORD_BYTES)] == [
        data[:3], data[3 : RECORD_BYTES + 3], data[RECORD_BYTES + 3 : 3 * RECORD_BYTES + 3],
    ]  # fmt: skip
    assert received(stream, RECORD_BYTES - 3) == data[3 * RECORD_BYTES + 3 :]
    assert pair.portions.calls == before + 1


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_records_that_arrive_in_parts(stream, pair, most):
    pair.portions.most = most
    pair.far.sendall(pair.encrypted(DATA[:2500]))
    assert received(stream, 2500) == DATA[:2500]


def test_what_is_sent_arrives(stream, pair):
    thread = in_thread(lambda: stream.sendall(DATA))
    assert pair.read(len(DATA)) == DATA
    thread.join()


def test_close_notify_is_the_end(stream, pair):
    """Nothing behind it is read, and later calls say the same; the connection may stay open."""
    pair.far.sendall(pair.encrypted(DATA[:100]) + pair.goodbye() + b"plain")
    assert received(stream, 200) == DATA[:100]
    assert received(stream, 200) == received(stream, 1) == b""


@pytest.mark.parametrize("kept", [0, 1, RECORD_BYTES // 2])
def test_a_peer_that_stops_in_the_middle_of_a_record_ends_with_the_one_before(stream, pair, kept):
    """So the caller sees fewer bytes than it expects: no part of a record is taken for whole."""
    whole = pair.encrypted(DATA[:RECORD_BYTES])
    pair.far.sendall(whole + pair.encrypted(DATA[RECORD_BYTES : 2 * RECORD_BYTES])[:kept])
    pair.far.shutdown(socket.SHUT_WR)
    assert received(stream, 2 * RECORD_BYTES) == DATA[:RECORD_BYTES]
    assert received(stream, 1) == b""


def test_a_record_that_was_changed_on_the_way_is_refused(stream, pair):
    pair.far.sendall(pair.encrypted(b"good"))
    bad = bytearray(pair.encrypted(DATA[:100]))
    bad[50] ^= 1
    pair.far.sendall(bad)
    assert received(stream, 4) == b"good"
    with pytest.raises(ssl.SSLError, match=r"(?i)bad[ _]record[ _]mac|decryption failed"):
        received(stream, 100)


def test_a_connection_that_is_reset(stream, pair):
    stream.sendall(b"never read")
    pair.far.close()
    with pytest.raises(ConnectionResetError):
        received(stream, 1)


def test_another_certificate_than_the_daemons_is_refused_and_the_other_side_learns_why(
    pair, identities
):
    own, _ = identities
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self[- ]signed certificate"):
        pair.connect(client_context(own, make_identity("other").certificate))
    assert "UNKNOWN_CA" in str(pair.refusal).upper().replace(" ", "_")


def test_a_daemon_that_knows_another_client_refuses_this_one(pair, identities):
    """TLS 1.3 tells a client after its handshake."""
    _, daemon = identities
    stream = pair.connect(client_context(make_identity("other"), daemon.certificate))
    with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
        received(stream, 1)
    assert isinstance(pair.refusal, ssl.SSLCertVerificationError)


@pytest.mark.parametrize(
    ("does", "error", "message"),
    [
        (lambda far: far.shutdown(socket.SHUT_WR), ConnectionResetError, "ended in the handshake"),
        (
            lambda far: far.sendall(b"220 mail.example.org ESMTP\r\n"),
            ssl.SSLError,
            r"(?i)wrong[ _]version|packet|record",
        ),
        (lambda far: None, TimeoutError, "timed out"),
    ],
    ids=["leaves", "plain text", "says nothing"],
)
def test_a_peer_that_makes_no_handshake(pair, identities, does, error, message):
    own, daemon = identities
    does(pair.far)
    pair.portions.sock.settimeout(0.01 if error is TimeoutError else DEADLINE_S)
    with pytest.raises(error, match=message):
        TlsStream(pair.portions, client_context(own, daemon.certificate))
