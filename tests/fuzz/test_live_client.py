"""A client whose daemon sends nonsense: it ends with a typed error, and nothing of it is left.

The daemon of these tests greets a client rightly, over `tcp://`, and then sends stored inputs and
changes of them: on the carrier, or as messages. The leak fixture looks for what is left of it.
"""

import contextlib
import itertools
import os
import random
import socket
import threading
import time
from collections.abc import Iterable, Iterator

import pytest
import targets
import zmq
from test_live import bad_bytes

from stoker.client.remote.carrier_receiver import Carrier, Ended, File, ReceivedBatch
from stoker.client.remote.remote_session import RemoteSession
from stoker.client.remote.ring import Ring
from stoker.protocol.codec import decode_from_client, encode
from stoker.protocol.errors import AccessError, StokerError
from stoker.protocol.messages import Attached, Welcome
from stoker.protocol.remote.tcp import frame, tcp_address
from stoker.protocol.remote.tls import make_identity

TOKEN = b"t" * 16
ROUNDS = 40
PATIENCE_S = 20.0
TARGETS = {"carrier": "carrier_of_a_client", "messages": "message_of_a_daemon"}
WHERE = tcp_address("tcp://127.0.0.1:7470")


@contextlib.contextmanager
def carrier(data: bytes) -> Iterator[Carrier]:
    """A carrier on which these bytes came, and then the end."""
    here, there = socket.socketpair()
    with contextlib.closing(Ring(2, targets.RING_SLOT_BYTES)) as ring:
        made = Carrier(here, WHERE)
        made.use(ring)
        with contextlib.closing(made), there:
            there.sendall(data)
            there.shutdown(socket.SHUT_WR)
            yield made


def test_the_thread_of_a_carrier_ends_with_a_reason() -> None:
    for data in itertools.islice(bad_bytes("carrier_of_a_client"), 60):
        with carrier(data) as made:
            made.start()
            ring, end = made._ring, time.monotonic() + PATIENCE_S
            while True:
                assert time.monotonic() < end
                found = made.arrived()
                for item in found:
                    if isinstance(item, File):
                        os.close(item.descriptor)
                    elif isinstance(item, ReceivedBatch):
                        ring.release([(item.slot, ring.generation(item.slot))])
                if found and isinstance(found[-1], Ended):
                    assert found[-1].reason
                    break


def test_bytes_in_the_place_of_tls() -> None:
    identity = make_identity("fuzz")
    for data in itertools.islice(bad_bytes("carrier_of_a_client", "certificate"), 20):
        with carrier(data) as made, pytest.raises((AccessError, OSError)):
            made.protect(identity, identity.certificate, time.monotonic() + PATIENCE_S)


class Hostile:
    """A daemon that greets clients rightly, one after the other, and then sends what is bad."""

    def __init__(self, on_carrier: Iterable[bytes], as_messages: Iterable[bytes]) -> None:
        self._stack = contextlib.ExitStack()
        context = self._stack.enter_context(zmq.Context())
        self._router = self._stack.enter_context(context.socket(zmq.ROUTER))
        self._router.linger = 0
        self._router.rcvtimeo = int(PATIENCE_S * 1000)
        while True:
            port = random.SystemRandom().choice(range(20_000, 32_000))
            try:
                self._listener = socket.create_server(("127.0.0.1", port + 1))
            except OSError:
                continue
            self._stack.callback(self._listener.close)
            self._listener.settimeout(PATIENCE_S)
            with contextlib.suppress(zmq.ZMQError):
                self._router.bind(f"tcp://127.0.0.1:{port}")
                break
        self.address = f"tcp://127.0.0.1:{port}"
        self._bad = list(zip(on_carrier, as_messages, strict=True))
        self._thread = threading.Thread(target=self._serve, name="hostile")

    def __enter__(self) -> "Hostile":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._stack.close()

    def _greeted(self) -> bytes:
        """Return the peer of the next HELLO; what clients of the past still said is skipped."""
        while True:
            peer, data = self._router.recv_multipart()
            if not decode_from_client(data)[0]:
                return bytes(peer)

    def _serve(self) -> None:
        for on_carrier, as_message in self._bad:
            side, _ = self._listener.accept()
            with side, contextlib.suppress(OSError):
                peer = self._greeted()
                self._router.send_multipart([peer, encode(b"", [Welcome(1, TOKEN, "hostile")])])
                side.recv(64)
                if as_message:
                    self._router.send_multipart([peer, as_message])
                side.sendall(frame(Attached()) + on_carrier)


@pytest.mark.parametrize("way", ["carrier", "messages"])
def test_a_session_ends_with_a_typed_error(way) -> None:
    bad = list(itertools.islice(bad_bytes(TARGETS[way]), ROUNDS))
    nothing = [b""] * len(bad)
    with Hostile(*((bad, nothing) if way == "carrier" else (nothing, bad))) as daemon:
        for _ in bad:
            with pytest.raises(StokerError):
                listen(daemon.address)


def listen(address: str) -> None:
    """Open a session and receive until it is over."""
    with contextlib.closing(RemoteSession(address, PATIENCE_S)) as session:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            session.receive(end)
            session.inbox.clear()
