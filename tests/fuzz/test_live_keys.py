"""A live daemon with keys gets stored inputs and changes of them, before and after each handshake.

Three peers send: one without a key, whose bytes replace the handshake (CURVE on the
port of messages, TLS on that of carriers); one with a key of the list, that never says hello or
says nonsense; and one whose carrier is up, and who then sends nonsense in the place of Attach.
"""

import contextlib
import itertools
import socket
import ssl
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import zmq
from test_live import OPTIONS, bad_bytes, digests, served_daemon
from test_targets import inputs

from stoker.client import Connection, Loader
from stoker.client.remote.loader_keys import Keys, resolve_keys
from stoker.protocol import version
from stoker.protocol.codec import decode_from_daemon, encode
from stoker.protocol.messages import Attach, Hello, Welcome
from stoker.protocol.remote.tcp import frame, tcp_address
from stoker.protocol.remote.tls import Identity, client_context, make_identity
from stoker.server.commands.keygen_command import keygen

CARRIERS = 30
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15 + 32)
"""The first 64 bytes of ZMTP 3.1, with the mechanism CURVE."""
HANDSHAKE = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A daemon with keys, and the arguments of a client that it lets in."""
    root = tmp_path_factory.mktemp("live-keys")
    for name in ("daemon", "client"):
        keygen(root / f"{name}.key")
    (root / "clients").write_text((root / "client.key.pub").read_text())
    flags = f"--key={root}/daemon.key", f"--clients={root}/clients"
    with served_daemon(root, *flags) as found:
        found.keys = {
            "connection": Connection(key=root / "client.key", daemon_key=root / "daemon.key.pub")
        }
        yield found


@pytest.fixture(autouse=True)
def honest(served: SimpleNamespace) -> Iterator[None]:
    """Load over the network during the test, and afterwards from a new session."""
    with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
        batches = iter(loader)
        first = list(itertools.islice(batches, 2))
        yield
        assert digests([*first, *batches]) == served.expected
    with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
        assert digests(loader) == served.expected


def send_to(host: str, port: int, data: bytes) -> None:
    with (
        socket.create_connection((host, port), 10) as sock,
        contextlib.suppress(OSError),  # it ended the connection already
    ):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass


def keys_of(served: SimpleNamespace) -> Keys:
    options = served.keys["connection"]
    keys = resolve_keys(served.tcp, options.key, options.daemon_key)
    assert keys is not None
    return keys


@contextlib.contextmanager
def dealer(served: SimpleNamespace) -> Iterator[zmq.Socket]:
    keys = keys_of(served)
    with zmq.Context() as context, context.socket(zmq.DEALER) as made:
        made.linger = 0
        made.setsockopt(zmq.CURVE_SERVERKEY, keys.daemon)
        made.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        made.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
        made.connect(served.tcp)
        yield made


@pytest.mark.parametrize("start", [b"", GREETING], ids=["no greeting", "greeting"])
def test_bytes_in_the_place_of_curve(served, start) -> None:
    address = tcp_address(served.tcp)
    for data in itertools.islice(bad_bytes("message_of_a_client", "key"), CARRIERS):
        send_to(address.host, address.port, start + data)


@pytest.mark.parametrize("start", [b"", HANDSHAKE], ids=["no TLS", "TLS"])
def test_bytes_in_the_place_of_tls(served, start) -> None:
    address = tcp_address(served.tcp)
    for data in itertools.islice(bad_bytes("carrier_of_a_daemon", "certificate"), CARRIERS):
        send_to(address.host, address.carrier_port, start + data)


def test_messages_of_a_key_that_is_let_in(served) -> None:
    with dealer(served) as sock:
        for data in bad_bytes("message_of_a_client", "session", "certificate"):
            sock.send(data)
        for data in bad_bytes("certificate"):
            sock.send(encode(b"", [Hello(version.WIRE, version.WIRE, "fuzz", data[:2048])]))
        sock.send_multipart(inputs("message_of_a_client")[:1])
        assert sock.poll(10_000)  # it answers: nothing above has stopped it


def test_bytes_on_a_carrier_with_the_right_certificate(served) -> None:
    identity = make_identity("fuzz")
    for data in itertools.islice(bad_bytes("carrier_of_a_daemon"), CARRIERS):
        with carrier(served, identity) as (sock, _):
            answer(sock, data)
    with carrier(served, identity) as (sock, token):
        answer(sock, frame(Attach(bytes(16)))[:-1])  # the packet is cut
    with carrier(served, identity) as (sock, token):
        sock.sendall(frame(Attach(token)))
        assert b"attached" in sock.recv(100)


@contextlib.contextmanager
def carrier(served: SimpleNamespace, identity: Identity) -> Iterator[tuple[ssl.SSLSocket, bytes]]:
    """A carrier after its handshake, of a session that waits for it; and the session's token."""
    address = tcp_address(served.tcp)
    with dealer(served) as control:
        control.send(encode(b"", [Hello(version.WIRE, version.WIRE, "fuzz", identity.certificate)]))
        assert control.poll(10_000)
        (welcome,) = decode_from_daemon(control.recv())[1]
        assert isinstance(welcome, Welcome)
        plain = socket.create_connection((address.host, address.carrier_port), 10)
        with client_context(identity, welcome.certificate).wrap_socket(plain) as sock:
            yield sock, welcome.token


def answer(sock: ssl.SSLSocket, data: bytes) -> bytes:
    """Send bytes and the end; return what comes back."""
    parts = []
    with contextlib.suppress(OSError):
        sock.sendall(data)
        socket.socket.shutdown(sock, socket.SHUT_WR)
        while part := sock.recv(4096):
            parts.append(part)
    return b"".join(parts)
