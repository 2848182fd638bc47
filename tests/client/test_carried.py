"""Both ends of a carrier: what comes with a batch, in which order, and what may overtake it."""

import os
import queue
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from stoker.client.remote import remote_session
from stoker.client.remote.carrier_receiver import Carrier, ReceivedBatch
from stoker.client.remote.remote_session import RemoteSession
from stoker.client.remote.ring import Ring
from stoker.protocol.errors import ProtocolError
from stoker.protocol.messages import Bye, Carried, Error, Ready, Slab, Status
from stoker.protocol.remote.tcp import TcpAddress, expect_full, is_silent, watch_link
from stoker.protocol.slot_layout import Placed
from stoker.server.daemon.remote import session_carrier as sender_module
from stoker.server.daemon.remote.session_carrier import SessionCarrier as Sender

SLOT_BYTES = 4096
SLOTS = 4
LONG = bytes(2**17)
"""Digests with which READY is longer than a packet."""


def ready(step: int, digests: bytes = b"") -> Ready:
    outputs = [Placed("data", "uint8", (2, 1000), 0)]
    return Ready(1, "a" * 32, 0, step, 1, step % SLOTS, 1, 2, outputs, [], digests)


@pytest.fixture
def ends() -> Iterator[SimpleNamespace]:
    """A connected pair: the daemon's carrier over a slab, the client's with a ring."""
    ours, theirs = socket.socketpair()
    sent: queue.SimpleQueue[list[tuple[int, int]]] = queue.SimpleQueue()
    sender = Sender(ours, sent.put, lambda _fault: None)
    ring = Ring(SLOTS, SLOT_BYTES)
    client = Carrier(theirs, TcpAddress("host", 1))
    slab = os.memfd_create("slab")
    for slot in range(SLOTS):
        os.write(slab, bytes([slot + 1]) * SLOT_BYTES)
    try:
        client.use(ring)
        client.start()
        sender.send_slab(Slab(1, SLOTS, SLOT_BYTES, writable=True), slab)
        made = SimpleNamespace(sender=sender, client=client, ring=ring, sent=sent)
        yield made
        made.__dict__.clear()  # the maps of ring and slab end with them
    finally:
        sender.end()
        sender.join()
        client.close()
        os.close(slab)


def arrived(client: Carrier, count: int) -> list:
    """The next records after SLAB; waits for them."""
    found: list = []
    while len(found) < count:
        assert select.select([client], [], [], 30)[0], found
        found += [item for item in client.arrived() if not isinstance(item, Slab)]
    return found


def arrived_slab(client: Carrier) -> None:
    """Wait for SLAB, and drop it."""
    assert select.select([client], [], [], 30)[0]
    assert [type(item) for item in client.arrived()] == [Slab]


def test_ready_travels_with_its_batch_and_errors_of_a_run_in_their_place(ends) -> None:
    failed = Error(0, "data", "a sample is damaged", {}, 1)
    assert ends.sender.send_batch(ready(0))
    ends.sender.send(failed)
    assert ends.sender.send_batch(ready(1))
    first, error, second = arrived(ends.client, 3)
    assert first.carried == Carried(1, 0, 1, 2000, ready(0))
    assert error == failed
    assert second.carried.ready == ready(1)
    for number, item in ((1, first), (2, second)):
        assert bytes(ends.ring.part(item.slot, 2000)) == bytes([number]) * 2000
    told = ends.sent.get(timeout=30)
    assert (told + ends.sent.get(timeout=30) if len(told) == 1 else told) == [(0, 1), (1, 1)]


def test_batches_that_are_sent_one_after_another_are_reported_together(ends, monkeypatch) -> None:
    monkeypatch.setattr(sender_module, "_REPORT_S", float("inf"))
    all_wait = threading.Event()
    ends.sender._jobs.put(all_wait.wait)
    for step in range(3):
        ends.sender.send_batch(ready(step))
    ends.sender.send(Error(0, "data", "m", {}, 1))
    all_wait.set()
    assert ends.sent.get(timeout=30) == [(0, 1), (1, 1), (2, 1)]


def test_a_ready_too_long_for_a_packet_is_a_message(ends) -> None:
    assert not ends.sender.send_batch(ready(0, LONG))
    (item,) = arrived(ends.client, 1)
    assert item.carried == Carried(1, 0, 1, 2000)


def test_an_error_too_long_for_a_packet_lacks_its_details(ends) -> None:
    details = {str(number): "d" * 16000 for number in range(5)}
    ends.sender.send_error(Error(0, "data", "m", details, 1))
    assert arrived(ends.client, 1) == [Error(0, "data", "m", {}, 1)]


@pytest.fixture
def session() -> Iterator[RemoteSession]:
    """A session of which only the inbox works."""
    made = RemoteSession.__new__(RemoteSession)
    made._announced, made._carried, made._last = deque(), deque(), deque()
    made.inbox = deque()
    made._ring = Ring(SLOTS, SLOT_BYTES)
    yield made
    made._ring.close()
    made._ring = made._side = None


def received(step: int, digests: bytes = b"", alone: bool = False) -> ReceivedBatch:
    said = ready(step, digests)
    carried = Carried(said.slab, said.slot, said.generation, 2000, None if alone else said)
    return ReceivedBatch(carried, step % SLOTS)


def test_batches_keep_the_order_of_the_carrier(session) -> None:
    failed = Error(0, "data", "m", {}, 1)
    session._carried += [received(0), received(1, LONG, alone=True), received(2), failed]
    assert session._match()
    assert [record.step for record in session.inbox] == [0]
    assert not session._match()  # its READY is still on its way
    session._admit([Status({}), ready(1, LONG)])
    assert session._match()
    kinds = [record.step if isinstance(record, Ready) else record for record in session.inbox]
    assert kinds == [0, Status({}), 1, 2, failed]


def test_bye_and_what_follows_wait_for_the_end_of_the_carrier(session) -> None:
    refused = Error(0, "protocol", "this token belongs to no session", {})
    session._admit([Status({}), Bye("done"), refused])
    assert list(session.inbox) == [Status({})]
    assert list(session._last) == [Bye("done"), refused]


def test_a_ready_for_another_batch_breaks_the_protocol(session) -> None:
    wrong = Carried(1, 0, 1, 1999, ready(0))
    session._carried.append(ReceivedBatch(wrong, 0))
    with pytest.raises(ProtocolError, match=r"expected the batch of \(slab, slot, generation"):
        session._match()


def test_an_error_about_the_session_waits_for_the_news_that_its_carrier_ended(
    ends, session, monkeypatch
) -> None:
    """The daemon knows it first, and answers the next message with an error."""
    arrived_slab(ends.client)
    session._lost, session._side = None, ends.client
    session._await_last_words = lambda: None
    monkeypatch.setattr(remote_session, "END_S", 60.0)
    refused = Error(0, "protocol", "this token belongs to no session", {})
    end = threading.Timer(0.02, ends.sender.end)
    end.start()
    session.handle_record(refused)
    end.join()
    assert session._lost is not None


def test_an_error_about_a_session_that_lives_is_raised(ends, session, monkeypatch) -> None:
    monkeypatch.setattr(remote_session, "END_S", 0.01)
    arrived_slab(ends.client)
    session._lost, session._side = None, ends.client
    with pytest.raises(ProtocolError, match="a broken message"):
        session.handle_record(Error(0, "protocol", "a broken message", {}))


@pytest.mark.parametrize(("silent_ms", "expected"), [(30_000, False), (30_001, True)])
def test_a_host_is_gone_after_30_s_without_an_acknowledgment(silent_ms, expected) -> None:
    info = bytes(56) + silent_ms.to_bytes(4, sys.byteorder)
    assert is_silent(SimpleNamespace(getsockopt=lambda *_: info)) == expected


def test_the_kernel_counts_from_the_last_acknowledgment() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as there,
    ):
        here, _ = listener.accept()
        with here:
            watch_link(here)
            assert here.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
            expect_full(here)
            assert here.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
            here.send(b"x")
            assert there.recv(1) == b"x"
            assert not is_silent(here)
