"""The daemon's test rig: a client that speaks the protocol by hand, and workers in process.

`FakeSupervisor` replaces the processes: it maps the slabs that the daemon hands it and fills rows
by a formula, so the daemon's sockets, memory and loop are tested without numba, datasets
or pipelines. `RawClient` waits on descriptors, each time for at most `PATIENCE_S`.
"""

import collections
import contextlib
import mmap
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq
from asking import opening

from stoker.protocol import codec, messages
from stoker.protocol.descriptors import receive_packet, send_packet
from stoker.protocol.slot_layout import Output
from stoker.server.daemon import http_server
from stoker.server.daemon.daemon import Daemon
from stoker.server.settings import config_loading as configuration
from stoker.server.settings.config_types import Config
from stoker.server.state.events import Built, ChunkDone, Event, WorkerDown, WorkerUp
from stoker.server.work.work_records import (
    AddSlab,
    BuildResult,
    BuiltSource,
    Done,
    DropSlab,
    OpenStream,
    Work,
)

PATIENCE_S = 20.0
ROWS = 103
OUTPUTS = (Output("x", "uint8", (7,)),)


def value(epoch: int, step: int, row: int) -> int:
    """The value that the fake workers write into every byte of a row."""
    return (epoch * 31 + step * 7 + row) % 251


class FakeSupervisor:
    """Workers in process; every answer comes by way of a descriptor, as from real ones."""

    def __init__(self, *, on_event: Callable[[Event], None], now, **_: object) -> None:
        self._on_event, self._now = on_event, now
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._answers: collections.deque[Event] = collections.deque()
        self._slabs: dict[tuple[int, int], mmap.mmap] = {}
        self._streams: dict[int, OpenStream] = {}
        self.alive: set[int] = set()

    def start(self) -> None:
        """Nothing to start."""

    def tick(self) -> None:
        """Nothing to replace."""

    def unready(self) -> str:
        return ""

    def seen(self) -> dict:
        return {}

    def descriptors(self):
        return {self._bell: self._deliver}

    def start_worker(self, worker: int) -> None:
        self.alive.add(worker)
        self._answer(WorkerUp(self._now(), worker, os.getpid()))

    def kill_worker(self, worker: int, reason: str) -> None:
        self.alive.discard(worker)
        self._unmap(worker)
        self._answer(WorkerDown(self._now(), worker, reason, blame=False))

    def abandon(self, descriptor: int) -> bool:
        return descriptor == self._bell

    def end_build(self, build: int, reason: str) -> None:
        """A fake build ends at once."""

    def recall(self, worker: int, claim: int) -> None:
        """A fake worker has done all its work."""

    def start_build(self, request) -> None:
        source = BuiltSource("/data", "content:" + "0" * 32, ROWS, "1" * 32, b"graph")
        result = BuildResult(
            request.build, source.fingerprint, ROWS, source.pipeline_id, OUTPUTS, (source,)
        )
        self._answer(Built(self._now(), result))

    def send(self, worker: int, record, descriptor: int | None = None) -> None:
        if worker not in self.alive:
            return
        match record:
            case AddSlab():
                assert descriptor is not None
                self._slabs[worker, record.slab] = mmap.mmap(descriptor, record.size_bytes)
            case DropSlab():
                self._slabs.pop((worker, record.slab)).close()
            case OpenStream():
                self._streams[record.stream] = record
            case Work():
                self._work(worker, record)

    def close(self) -> None:
        for worker in list(self.alive):
            self._unmap(worker)
        os.close(self._bell)

    def _work(self, worker: int, work: Work) -> None:
        stream = self._streams[work.stream]
        memory = np.frombuffer(self._slabs[worker, work.slab], np.uint8)
        [placed] = [placed for placed in stream.layout.outputs if placed.name == "x"]
        for row in range(work.row_lo, work.row_hi):
            begin = work.offset + placed.offset + (row - stream.first_row) * 7
            memory[begin : begin + 7] = value(work.epoch, work.step, row)
        self._answer(ChunkDone(self._now(), worker, Done(work.claim, 0.001, 0)))

    def _unmap(self, worker: int) -> None:
        for key in [key for key in self._slabs if key[0] == worker]:
            self._slabs.pop(key).close()

    def _answer(self, event: Event) -> None:
        self._answers.append(event)
        os.eventfd_write(self._bell, 1)

    def _deliver(self) -> None:
        os.eventfd_read(self._bell)
        while self._answers:
            self._on_event(self._answers.popleft())


class RawClient:
    """One peer of the daemon, as hostile as a test makes it."""

    def __init__(self, address: str) -> None:
        self.path = address.removeprefix("ipc://")
        self._context = zmq.Context(io_threads=1)
        self.dealer = self._context.socket(zmq.DEALER)
        self.dealer.setsockopt(zmq.LINGER, 0)
        self.dealer.connect(address)
        self.side: socket.socket | None = None
        self.token = b""
        self.slab: mmap.mmap | None = None
        self._records: collections.deque[messages.DaemonRecord] = collections.deque()

    def send(self, *records: messages.Record, token: bytes | None = None) -> None:
        self.dealer.send(codec.encode(self.token if token is None else token, records))

    def receive(self, kind=None):
        """Return the next record; it must be of that kind."""
        if not self._records:
            assert self.dealer.poll(PATIENCE_S * 1000), f"waited in vain for {kind}"
            self._records.extend(codec.decode_from_daemon(self.dealer.recv())[1])
        record = self._records.popleft()
        assert kind is None or isinstance(record, kind), record
        return record

    def hello(self) -> "RawClient":
        self.send(messages.Hello(1, 1, "test"))
        self.token = self.receive(messages.Welcome).token
        return self

    def connect_side(self) -> socket.socket:
        self.side = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.side.settimeout(PATIENCE_S)
        self.side.connect(self.path + ".fd")
        return self.side

    def attach(self) -> "RawClient":
        send_packet(self.connect_side(), codec.encode_packet(messages.Attach(self.token)))
        assert isinstance(self.packet()[0], messages.Attached)
        return self

    def packet(self):
        """Return (record, descriptor) of the side socket; (None, None) at end of file."""
        assert self.side is not None
        data, descriptor = receive_packet(self.side)
        return (codec.decode_packet(data) if data else None), descriptor

    def open(self, **changes) -> messages.Opened:
        self.send(open_record(**changes))
        opened = self.receive(messages.Opened)
        record, descriptor = self.packet()
        assert isinstance(record, messages.Slab)
        assert record.slab == opened.slab
        self.slab = mmap.mmap(descriptor, record.slots * record.slot_bytes)
        os.close(descriptor)
        return opened

    def closed_by_daemon(self) -> bool:
        """Wait for the end of the lifeline."""
        assert self.side is not None
        with contextlib.suppress(ConnectionResetError):
            while self.side.recv(65536):
                pass
        return True

    def close(self) -> None:
        if self.slab is not None:
            self.slab.close()
        if self.side is not None:
            self.side.close()
        self._context.destroy(linger=0)


@pytest.fixture(name="open_record")
def _open_record():
    return open_record


def open_record(**changes) -> messages.Open:
    return opening(**({"dataset": "photos", "pipeline": "train", "batch_size": 10} | changes))


@pytest.fixture
def make_config(folder: Path):
    """Return a configuration whose address is in `folder`; not all keys have a flag."""

    def make(**keys: object) -> Config:
        given = {
            "daemon__address": f"ipc://{folder}/run/s.sock",
            "daemon__cache_root": folder / "kernels",
            "workers__count": 2,
            "memory__limit": "64 MiB",
            "datasets": f"photos={folder}",
            "pipelines": "train=anything:train",
            **keys,
        }
        environment = {
            f"STOKER_{key.replace('__', '_').upper()}": str(value) for key, value in given.items()
        }
        return configuration.load(environment=environment).config

    return make


class Running:
    """A daemon whose loop runs in a thread, with fake workers."""

    def __init__(self, config: Config) -> None:
        self.address = config.daemon.address
        self.code: int | None = None
        self._up: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(config,), name="daemon under test")
        self.daemon: Daemon
        self._thread.start()
        assert self._up.wait(PATIENCE_S)

    def join(self) -> int | None:
        """Wait until it has exited and closed everything."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the daemon does not stop"
        return self.code

    def counter(self, name: str) -> float:
        return self.daemon._take_snapshot().counters[name]

    def _run(self, config: Config) -> None:
        try:
            with Daemon(config, supervisor=FakeSupervisor) as self.daemon:
                self._up.set()
                self.code = self.daemon.run()
        finally:
            self._up.set()


@pytest.fixture
def daemon(make_config) -> Iterator[Running]:
    """A running daemon with two fake workers."""
    running = Running(make_config())
    yield running
    running.daemon.stop()
    assert running.join() == 0


@pytest.fixture
def start(make_config) -> Iterator[Callable[..., Running]]:
    """Start daemons that end by themselves or are stopped at the end of the test."""
    started: list[Running] = []

    def begin(**flags: object) -> Running:
        started.append(Running(make_config(**flags)))
        return started[-1]

    yield begin
    for running in started:
        if running._thread.is_alive():
            running.daemon.stop()
            running.join()


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., RawClient]]:
    """Connect clients, to `daemon` if no address is given; they are closed after the test."""
    clients: list[RawClient] = []

    def make(address: str | None = None) -> RawClient:
        clients.append(RawClient(address or request.getfixturevalue("daemon").address))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def eventually(probe: Callable[[], object]) -> None:
    """Wait until the probe is true, PATIENCE_S at most; a poll, for what no descriptor tells."""
    deadline = time.monotonic() + PATIENCE_S
    while not probe():
        assert time.monotonic() < deadline, "it never came true"
        select.select([], [], [], 0.005)


@pytest.fixture(name="eventually")
def _eventually():
    return eventually


class Clock:
    """A clock that moves only when a test says so, in place of the HTTP server's."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of HTTP servers of this test. They look at it when something comes."""
    clock = Clock()
    monkeypatch.setattr(http_server, "time", clock)
    return clock


@pytest.fixture
def expected_value():
    return value


@pytest.fixture
def fake_supervisor():
    return FakeSupervisor
