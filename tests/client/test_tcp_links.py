"""A Loader on another host, in a network namespace, whose link is slow, pauses, or is cut.

Needs root and `ip` for the namespace; `tc` slows the link.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pytest
from warm import Script

from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.remote.tcp import KEEPALIVE_IDLE_S, LINK_TIMEOUT_S

HERE = Path(__file__).parent
OPTIONS = {"dataset": "data", "pipeline": "plain", "device": "numpy", "seed": 5, "batch_size": 4}
PATIENCE_S = 3 * (LINK_TIMEOUT_S + KEEPALIVE_IDLE_S)
BATCHES = 10
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=30)


class Host:
    """A network namespace, as another host: `here` is this host's address on the link to it."""

    def __init__(self, number: int) -> None:
        self.name = f"stoker-{os.getpid()}-{number}"
        self.link = f"st{os.getpid() % 10**6}a{number}"
        peer = f"st{os.getpid() % 10**6}b{number}"
        subnet = f"10.231.{(os.getpid() * 4 + number) % 256}"
        self.here = f"{subnet}.1"
        command("ip", "netns", "add", self.name)
        try:
            command("ip", "link", "add", self.link, "type", "veth", "peer", "name", peer)
            command("ip", "link", "set", peer, "netns", self.name)
            command("ip", "addr", "add", f"{self.here}/24", "dev", self.link)
            command("ip", "link", "set", self.link, "up")
            inside = ("ip", "-n", self.name)
            command(*inside, "addr", "add", f"{subnet}.2/24", "dev", peer)
            command(*inside, "link", "set", peer, "up")
        except BaseException:
            self.close()
            raise

    def set_link(self, state: str) -> None:
        command("ip", "link", "set", self.link, state)

    def slow_down(self) -> None:
        """Let 40 Mbit a second through, in small bursts."""
        limit = ("rate", "40mbit", "burst", "16kb", "latency", "50ms")
        command("tc", "qdisc", "add", "dev", self.link, "root", "tbf", *limit)

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            command("ip", "link", "del", self.link)
        command("ip", "netns", "del", self.name)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Callable[[], Host]]:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("needs root and ip, for network namespaces")
    made: list[Host] = []

    def make() -> Host:
        try:
            made.append(Host(len(made)))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait until something is true, with a deadline."""

    def wait(probe: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not probe():
            assert time.monotonic() < end, "it never came true"
            select.select([], [], [], 0.1)

    return wait


@pytest.fixture(scope="module")
def host(hosts) -> Host:
    return hosts()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, host: Host) -> Iterator[SimpleNamespace]:
    """A daemon that listens on all networks of this host, and the bytes of its stream."""
    root = tmp_path_factory.mktemp("links")
    values = np.random.default_rng(3).integers(0, 255, (4 * BATCHES, 300, 300), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(root / "data", [schema.array("pixels", "uint8", (300, 300)), schema.label()], rows)
    folder = root / "d"
    folder.mkdir(mode=0o700)
    daemon = daemons.Daemon(
        folder, "--tcp=tcp://0.0.0.0:0", "--insecure", f"--dataset=data={root}/data",
        f"--python-path={HERE}", "--pipeline=plain=client_pipelines:tensors", "--workers=2",
        warm=True,
    )  # fmt: skip
    try:
        port = daemon.ready["tcp"].rpartition(":")[2]
        with Loader(daemon.address, **OPTIONS) as loader:
            found = [
                batch_digest(digest_parts(batch), batch.epoch, batch.step)
                for _ in range(4)
                for batch in loader
            ]
        yield SimpleNamespace(ipc=daemon.address, port=port, expected=found, daemon=daemon)
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        daemon.close()


@contextlib.contextmanager
def reader(
    host: Host | None, address: str, epochs: int, batch_size: int = 4
) -> Iterator[subprocess.Popen[str]]:
    """A process that reads the stream, on another host if one is given."""
    words = (HERE / "remote_reader.py", address, epochs, batch_size)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    if host is None:
        started: subprocess.Popen[str] = Script(*words, **pipes)
    else:
        there = ("ip", "netns", "exec", host.name, sys.executable)
        started = subprocess.Popen([*there, *map(str, words)], text=True, **pipes)
    with started as process:
        try:
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    return [process.stdout.readline().strip() for _ in range(count)]


def ended(served: SimpleNamespace) -> int:
    """Number of sessions that have ended, from the daemon's log."""
    return served.daemon.log.read_text().count("session_ended")


def test_a_slow_link_delivers_the_same_bytes(hosts, served) -> None:
    if not shutil.which("tc"):
        pytest.skip("needs tc, to slow the link")
    slow = hosts()
    slow.slow_down()
    with reader(slow, f"tcp://{slow.here}:{served.port}", 2) as process:
        begin(process)
        assert lines(process, 2 * BATCHES) == served.expected[: 2 * BATCHES]


def test_a_link_that_pauses_costs_only_time(host, served) -> None:
    with reader(host, f"tcp://{host.here}:{served.port}", 4) as process:
        begin(process)
        first = lines(process, 3)
        host.set_link("down")
        host.set_link("up")
        assert first + lines(process, 4 * BATCHES - 3) == served.expected


def test_a_half_open_link_ends_its_session_and_no_other(hosts, host, served, eventually) -> None:
    """Nothing says that the other side is gone; clients here and elsewhere go on meanwhile.

    One of them is stopped; its batches are larger than the buffers of its connection.
    """
    cut = hosts()
    before = ended(served)
    with (
        reader(cut, f"tcp://{cut.here}:{served.port}", 100) as lost,
        reader(host, f"tcp://{host.here}:{served.port}", 100, 4 * BATCHES) as stopped,
        reader(None, served.ipc, 4) as other,
    ):
        for process in (lost, stopped):
            begin(process)
            assert all(lines(process, 3))
        cut.set_link("down")
        stopped.send_signal(signal.SIGSTOP)
        begin(other)
        assert lines(other, 4 * BATCHES) == served.expected
        eventually(lambda: ended(served) >= before + 2)
        *_, last = lost.stdout.read().split()
        assert last == "DaemonLostError"
        stopped.send_signal(signal.SIGCONT)
        assert all(len(line) == 32 for line in lines(stopped, 97))
