"""Descriptors above 1,023, which select(2) refuses: in a busy daemon, and in a training."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import zmq
from daemons import children, descendants

from stoker.client import Batch, Loader
from stoker.client.side_socket import connect_side
from stoker.protocol import codec, messages, version
from stoker.protocol.descriptors import await_readable, send_packet
from stoker.protocol.digest import batch_digest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
SESSIONS = 500
OPEN = 60
"""Sessions with an open stream, which have a slab each."""
PATIENCE_S = 60.0
HERE = Path(__file__).parent


def digests(batches: Iterable[Batch]) -> list[str]:
    return [batch_digest(batch, batch.epoch, batch.step) for batch in batches]


@pytest.fixture(autouse=True)
def _room() -> Iterator[None]:
    """Let this process, and daemons that it starts, open as many files as they may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"the limit on open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Sessions:
    """Sessions of one process with one ZeroMQ context, because a Loader has threads of its own."""

    def __init__(self, address: str, stack: contextlib.ExitStack) -> None:
        self._address, self._stack = address, stack
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 2 * SESSIONS)
        stack.callback(self._context.destroy, linger=0)

    def begin(self, record: messages.Open | None) -> None:
        """Greet, attach, and open a stream if there is a record for it."""
        dealer = self._stack.enter_context(self._context.socket(zmq.DEALER))
        dealer.linger = 0
        dealer.connect(self._address)
        dealer.send(codec.encode(b"", [messages.Hello(version.WIRE, version.WIRE, "one of many")]))
        (welcome,) = self._answer(dealer)
        side = self._stack.enter_context(connect_side(self._address, PATIENCE_S))
        send_packet(side, codec.encode_packet(messages.Attach(welcome.token)))
        assert await_readable(side, PATIENCE_S)
        assert isinstance(codec.decode_packet(side.recv(4096)), messages.Attached)
        if record is not None:
            dealer.send(codec.encode(welcome.token, [record]))
            while not isinstance(self._answer(dealer)[-1], messages.Opened):
                pass

    def _answer(self, dealer: zmq.Socket[bytes]) -> list[messages.DaemonRecord]:
        assert dealer.poll(PATIENCE_S * 1000)
        return list(codec.decode_from_daemon(dealer.recv())[1])


@pytest.mark.as_a_user
def test_500_sessions_in_one_daemon(serve, loader, expected) -> None:
    daemon = serve("--memory-limit=1GiB", warm=True)
    with contextlib.ExitStack() as stack:
        with loader(daemon) as batches:
            record = batches._connection._record
        sessions = Sessions(daemon.address, stack)
        for number in range(SESSIONS):
            sessions.begin(record if number < OPEN else None)
        assert max(map(int, os.listdir(f"/proc/{daemon.pid}/fd"))) > 1023
        with loader(daemon) as batches:
            found = []
            for batch in batches:
                found.append(batch_digest(batch, batch.epoch, batch.step))
                if batch.step == 0:
                    (template,) = children(daemon.pid)
                    for pid in children(template):  # their successors have high descriptors
                        os.kill(pid, signal.SIGKILL)
        assert found == expected("labels", 1)
    processes = descendants(daemon.pid)
    assert daemon.stop() == 0
    assert not [pid for pid in processes if os.path.exists(f"/proc/{pid}")]


@pytest.mark.as_a_user
def test_a_training_with_1500_descriptors_makes_a_loader(
    small_dataset, expected, monkeypatch
) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    with contextlib.ExitStack() as stack:
        for _ in range(1500):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with Loader(
            small_dataset, pipeline="robust_pipelines:labels", batch_size=5, workers=1,
            device="numpy",
        ) as batches:  # fmt: skip
            assert digests(batches) == expected("labels", 1)
