"""Connections of a daemon with keys that end at every stage: only that peer notices, on both sides.

A stage is a number of bytes: of a handshake of TLS and Attach that a peer makes by hand, or of what
a proxy passes on between a Loader and the daemon. Another client reads meanwhile.
"""

import contextlib
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from keyed import OPTIONS, greeted, keyed_daemon, limited
from proxy import BATCHES, RECORDS, Proxy, Stop

from stoker.client import Loader
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import AccessError, ConnectError, DaemonLostError, PeerError
from stoker.protocol.messages import Attach
from stoker.protocol.remote.tcp import frame, tcp_address
from stoker.protocol.remote.tls import client_context

pytestmark = pytest.mark.as_a_user

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: `close` sends a reset."""
WAYS = ["reset", "end", "half end", "garbage"]
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    with keyed_daemon(tmp_path_factory.mktemp("resets")) as found:
        with Loader(found.ipc, **OPTIONS) as loader:
            found.expected = digests(loader)
        yield found


@pytest.fixture
def neighbor(served) -> Iterator[None]:
    """A client that reads before and after the test, in the same session."""
    with Loader(served.tcp, **OPTIONS, **served.keys) as loader:
        before = used(served)
        assert digests(loader) == served.expected
        yield
        again = [batch_digest(digest_parts(b), 0, b.step) for b in loader]
        assert len(again) == len(served.expected)
        end = time.monotonic() + PATIENCE_S
        while used(served) > before:
            assert time.monotonic() < end, f"{used(served)} > {before} descriptors"
            select.select([], [], [], 0.05)
    assert "unexpected_error" not in served.daemon.log.read_text()


def digests(loader: Loader) -> list[str]:
    return [batch_digest(digest_parts(batch), batch.epoch, batch.step) for batch in loader]


def used(served) -> int:
    """Descriptors that the daemon has open."""
    return len(os.listdir(f"/proc/{served.daemon.pid}/fd"))


# ---------------------------------------------------------------- the daemon's side


class Peer:
    """A client's end of a carrier, whose bytes of TLS are kept apart from the socket."""

    def __init__(self, served, welcome, identity) -> None:
        address = tcp_address(served.tcp)
        self.sock = socket.create_connection((address.host, address.carrier_port), PATIENCE_S)
        self._token = welcome.token
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client_context(identity, welcome.certificate).wrap_bio(self._in, self._out)

    def flights(self) -> Iterator[bytes]:
        """The parts that an honest client sends; each must be sent before the next one."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        yield self._out.read()
        while True:
            self._in.write(self.sock.recv(2**16))
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                break
        yield self._out.read()
        self._tls.write(frame(Attach(self._token)))
        yield self._out.read()

    def stop(self, way: str) -> None:
        with contextlib.suppress(OSError):  # the daemon was faster
            if way == "garbage":
                self.sock.sendall(bytes(range(256)))
            if way == "half end":
                self.sock.shutdown(socket.SHUT_WR)
                self.sock.recv(1)
        if way == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.sock.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_carrier_that_ends_in_its_handshake(served, neighbor, way) -> None:
    """In each flight: before it, after a byte, in the middle, at its last byte, after it."""
    with greeted(served) as (welcome, identity):
        for stage in range(3):
            for part in (0.0, 0.001, 0.5, 0.999, 1.0):
                if (stage, part) == (2, 1.0):
                    continue  # then it is attached
                peer = Peer(served, welcome, identity)
                for number, flight in enumerate(peer.flights()):
                    size = len(flight) if number < stage else int(part * len(flight) + 0.999)
                    peer.sock.sendall(flight[:size])
                    if number == stage:
                        break
                peer.stop(way)


@pytest.mark.parametrize("way", WAYS)
def test_a_carrier_that_ends_when_it_is_attached(served, neighbor, way) -> None:
    with greeted(served) as (welcome, identity):
        peer = Peer(served, welcome, identity)
        for flight in peer.flights():
            peer.sock.sendall(flight)
        peer.stop(way)


def test_a_hundred_connections_that_are_reset_at_once(served, neighbor) -> None:
    """The daemon meets them accepted, in the kernel's queue, or in the handshake."""
    address = tcp_address(served.tcp)
    for port in (address.port, address.carrier_port):
        socks = [socket.create_connection((address.host, port), PATIENCE_S) for _ in range(100)]
        for sock in socks:
            sock.sendall(b"\x16\x03\x01")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.close()


# ---------------------------------------------------------------- both sides, through a proxy


@pytest.mark.parametrize("how", ["reset", "end", "garbage"])
@pytest.mark.parametrize("port", [RECORDS, BATCHES], ids=["records", "batches"])
@pytest.mark.parametrize("to_daemon", [False, True], ids=["from daemon", "from client"])
def test_a_loader_whose_connection_ends_while_it_opens(
    served, neighbor, how, port, to_daemon
) -> None:
    """A typed error in time, for any last byte."""
    with Proxy(tcp_address(served.tcp), keeps=False) as proxy:
        for size in (1, 40, 300, 700):
            proxy.stop_after(Stop(port, to_daemon, size, how))
            with pytest.raises((ConnectError, AccessError, PeerError)):
                Loader(
                    proxy.address,
                    **OPTIONS,
                    connection=limited(served, connect_timeout_s=1.0, timeout_s=1.0),
                )
        proxy.stop_after(None)
        with Loader(proxy.address, **OPTIONS, **served.keys) as loader:
            assert digests(loader) == served.expected


def test_a_daemon_that_falls_silent_in_the_handshake(served, neighbor) -> None:
    with Proxy(tcp_address(served.tcp), keeps=False) as proxy:
        proxy.stop_after(Stop(BATCHES, False, 100, "silence"))
        began = time.monotonic()
        with pytest.raises(ConnectError, match="did not answer within 1 s"):
            Loader(
                proxy.address,
                **OPTIONS,
                connection=limited(served, connect_timeout_s=1.0),
            )
        assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("ports", [(RECORDS,), (BATCHES,), (RECORDS, BATCHES)], ids=str)
def test_a_reset_while_batches_come(served, neighbor, ports) -> None:
    with Proxy(tcp_address(served.tcp), keeps=False) as proxy:
        with Loader(proxy.address, **OPTIONS, **served.keys) as loader:
            batches = iter(loader)
            next(batches)
            proxy.reset(*ports)
            with pytest.raises(DaemonLostError, match="went away"):
                [list(batches)] + [list(loader) for _ in range(100)]
        with Loader(
            proxy.address,
            **OPTIONS,
            connection=limited(served, reconnect_s=60),
        ) as loader:
            found = []
            for batch in loader:
                found.append(batch_digest(digest_parts(batch), batch.epoch, batch.step))
                if batch.step % 3 == 0:
                    proxy.reset(*ports)
            assert found == served.expected


@pytest.mark.parametrize("size", [3_000, 200_000, 1_000_000])
def test_a_connection_that_ends_in_the_middle_of_a_batch(served, neighbor, size) -> None:
    with Proxy(tcp_address(served.tcp), keeps=False) as proxy:
        proxy.stop_after(Stop(BATCHES, False, size, "reset"))
        with (
            pytest.raises(DaemonLostError, match="went away"),
            Loader(proxy.address, **OPTIONS, **served.keys) as loader,
        ):
            [list(loader) for _ in range(100)]
