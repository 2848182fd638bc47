"""Descriptors whose numbers are reused: what was known of the old connection is forgotten."""

import contextlib
import dataclasses
import os
import socket
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from stoker.client import Loader
from stoker.server.daemon import connections
from stoker.server.daemon.connections import SILENCE_S, Connections, ZmqConnection
from stoker.server.daemon.pending_connections import PendingConnections, network_of

LEAVERS, TRIES = 16, 50


@contextlib.contextmanager
def connected(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(path)
        yield sock


def fill_except(free: Collection[int], stack: contextlib.ExitStack) -> None:
    """Open all descriptors up to the highest of some, which are free then."""
    filled = []
    while not filled or filled[-1] <= max(free):
        filled.append(os.open(os.devnull, os.O_RDONLY))
    for number in filled:
        if number in free:
            os.close(number)
        else:
            stack.callback(os.close, number)


def test_a_client_that_leaves_before_attach_has_nobody_else_cut(
    start, connect, expected_value, monkeypatch, eventually
) -> None:
    """A Loader gets the descriptor of a client that said HELLO and left, and reads on."""
    monkeypatch.setattr(connections, "SILENCE_S", 2.0)
    running = start()
    context = running.daemon._core._sessions._context
    context.settings = dataclasses.replace(context.settings, hello_deadline_s=3.0)
    known = running.daemon._broker.connections
    leavers = [connect(running.address).hello() for _ in range(LEAVERS)]
    left = dict(known._open)
    for leaver in leavers:
        leaver.close()
    eventually(lambda: not known._open)
    options = {"dataset": "photos", "pipeline": "train", "batch_size": 10, "device": "numpy"}
    with contextlib.ExitStack() as stack:
        fill_except(left.keys(), stack)
        loader = stack.enter_context(Loader(running.address, drop_last=True, **options))
        assert left.keys() & known._open.keys(), "the loader got none of the descriptors"
        eventually(lambda: running.counter("sessions") == 1)
        with connected(running.address.removeprefix("ipc://")) as silent:
            while silent.recv(
                64
            ):  # later than the connection that the end of the session would cut
                pass
        for step, batch in zip(range(4), loader, strict=False):
            want = [[expected_value(0, step, row)] * 7 for row in range(10)]
            assert np.array_equal(batch["x"], want)


@pytest.fixture
def watched(folder: Path) -> Iterator[tuple[str, list[float], Connections]]:
    """A bound socket, its clock, and its connections."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        clock = [0.0]
        found = Connections(router, lambda: clock[0])
        router.bind(f"ipc://{folder}/s")
        yield f"{folder}/s", clock, found
        found.close()


def reuse(
    path: str, found: Connections, stack: contextlib.ExitStack, eventually
) -> tuple[ZmqConnection, ZmqConnection, socket.socket]:
    """Return a connection that is closed, the one that has its number now, and its client."""
    with connected(path):
        eventually(lambda: found.drain() or len(found) == 1)
        (old,) = found._open.values()
        assert found.claim(old.descriptor) is old
        found.is_session(old)
    eventually(lambda: found.drain() or len(found) == 0)
    for count in range(1, TRIES):
        sock = stack.enter_context(connected(path))
        eventually(lambda count=count: found.drain() or len(found) == count)
        if old.descriptor in found._open:
            return old, found._open[old.descriptor], sock
    raise AssertionError("the number was not used again")


def test_the_end_of_a_session_leaves_the_next_connection_with_its_number(watched, eventually):
    path, clock, found = watched
    with contextlib.ExitStack() as stack:
        old, new, sock = reuse(path, found, stack, eventually)
        assert found.claim(new.descriptor) is new
        found.is_session(new)
        found.is_idle(old)
        clock[0] += 2 * SILENCE_S
        found.tick()
        old.shut_down()
        sock.setblocking(False)
        assert sock.recv(64)[:1] == b"\xff"  # the greeting of ZeroMQ
        with pytest.raises(BlockingIOError):
            sock.recv(64)


def test_a_hello_that_is_read_late_claims_what_it_cannot_end(watched, eventually):
    """Two peers said HELLO with one number: the owner of the connection is not known."""
    path, clock, found = watched
    with contextlib.ExitStack() as stack:
        _, new, sock = reuse(path, found, stack, eventually)
        late, own = found.claim(new.descriptor), found.claim(new.descriptor)
        assert late is own is new
        found.is_session(late)
        found.is_session(own)
        found.is_idle(late)
        clock[0] += 2 * SILENCE_S
        found.tick()
        sock.setblocking(False)
        assert sock.recv(64)
        with pytest.raises(BlockingIOError):
            sock.recv(64)


# ---------------------------------------------------------------- how many may wait


def test_the_oldest_of_the_host_that_has_most_goes() -> None:
    waiting: PendingConnections[int] = PendingConnections(8)
    assert [waiting.add(number, "10.0.0.1") for number in range(4)] == [None] * 4
    assert waiting.add(4, "10.0.0.1") == 0  # half of the limit for a host
    assert [waiting.add(number, "10.0.0.2") for number in (5, 6, 7)] == [None] * 3
    assert waiting.add(8, "10.0.0.3") is None
    assert waiting.add(9, "10.0.0.3") == 1  # beyond the limit in all
    waiting.discard(2)
    waiting.discard(2)
    assert list(waiting) == [3, 4, 5, 6, 7, 8, 9]


def test_a_network_of_ipv6_is_one_host() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db9::1")
    assert network_of("::ffff:10.0.0.1") == network_of("10.0.0.1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
