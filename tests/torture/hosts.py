"""The daemons of a storm: how clients reach them, how they die and return, and what they leave.

Each daemon listens at an `ipc://` address; in some storms it also listens at `tcp://`, with or
without keys. Clients use that port directly, or through a proxy, whose connections a storm cuts.
The ports are below those that the system gives to connections by itself: otherwise a client that
tries the port of a dead daemon again and again may at last be connected to itself.
"""

import contextlib
import errno
import itertools
import json
import os
import random
import resource
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from daemons import Restarted, children, descendants
from disks import make_disk
from law_rig import flags
from proxy import BATCHES, RECORDS, Proxy
from streams import BAD

from stoker.client.daemon_status import ask_to_resize
from stoker.protocol.errors import PeerError
from stoker.protocol.remote.tcp import tcp_address
from stoker.server.commands.keygen_command import keygen

LOCAL, OPEN, KEYS = "ipc", "tcp", "tcp with keys"
PORTS = range(20_000, 32_000)
PORTS_OF_PROCESS = 1000
_chosen = itertools.count(random.SystemRandom().randrange(PORTS_OF_PROCESS))
FREEZE_S, RESIZE_S = 0.05, 5.0
PATIENCE_S = 60.0
CUTS = ((RECORDS,), (BATCHES,), (RECORDS, BATCHES))
CHUNK_ROWS = (0, 0, 1, 2, 3, 5, 100)
"""Rows of a worker's chunks: by their cost (0), this number, or all of a batch."""


class Host:
    """One daemon.

    Attributes:
        away: after how many batches it comes back; 0: it is there, or starting.
        full: after how many batches there is room on its disk again; 0: there is.
    """

    def __init__(
        self, folder: Path, datasets: Mapping[str, Path], drawn: "Drawn", link: str, keys: Path
    ) -> None:
        """Prepare; `link` is one of `LOCAL`, `OPEN` and `KEYS`, `keys` the folder of keys."""
        folder.mkdir(mode=0o700)
        more = []
        self._port = 0
        self._workers = drawn.workers
        if link != LOCAL:
            self._port = free_port()
            more.append(f"--tcp=tcp://127.0.0.1:{self._port}")
            more += (
                ["--insecure"]
                if link == OPEN
                else [f"--key={keys}/daemon.key", f"--clients={keys}/clients"]
            )
        self.away = self.full = 0
        self._proxy: Proxy | None = None
        self._stack = contextlib.ExitStack()
        self._disk = make_disk()
        self._bad = self._disk.bad if self._disk else folder / "bad"
        written = f"[bad_samples]\nfolder = {json.dumps(str(self._bad))}"
        given = flags(
            folder, datasets, self._workers, "", written,
            chunk_rows=drawn.chunk_rows, at_once_bytes=drawn.at_once_bytes,
        )  # fmt: skip
        log = self._disk.log if self._disk else None
        self._served = Restarted(folder, *given, *more, stderr=log)
        self._local = f"ipc://{folder}/stoker.sock"
        self._timers: list[threading.Timer] = []
        self._idle: Counter[str] = Counter()

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self._served.pid

    @property
    def has_tcp(self) -> bool:
        """True if it listens at `tcp://`."""
        return self._port > 0

    def start(self) -> None:
        """Start it, and its proxy; note what it uses without a client."""
        self._served.start()
        if self._port:
            there = tcp_address(f"tcp://127.0.0.1:{self._port}")
            self._proxy = self._stack.enter_context(Proxy(there, keeps=False))
        wait_until(lambda: len(self.workers()) == self._workers, "the workers start")
        self._idle = usage(self.pid)

    def draw_address(self, rng: random.Random) -> str:
        """Return one of its addresses."""
        if self._proxy is None:
            return self._local
        direct = f"tcp://127.0.0.1:{self._port}"
        return rng.choices((self._local, direct, self._proxy.address), (1, 1, 3))[0]

    def templates(self) -> list[int]:
        """Return the process ids of its templates."""
        return children(self.pid)

    def workers(self) -> list[int]:
        """Return the process ids of its workers."""
        return [pid for template in self.templates() for pid in children(template)]

    def restart(self, *, meanwhile: bool) -> None:
        """Kill it and start it again, `meanwhile`: while its clients wait."""
        if meanwhile:
            self._served.in_thread(self._served.restart)
        else:
            self._served.restart()

    def leave(self, batches: int) -> None:
        """Kill it; it comes back after that number of batches."""
        self._served.kill()
        self.away = batches

    def fill(self, batches: int) -> None:
        """Fill its disk; there is room again after that number of batches.

        Log and quarantine files are on a disk of their own. Kernels are not, as all daemons share
        them: a limit on the size of files stands for a full disk, for all that store kernels.
        """
        self.full = batches
        if self._disk:
            self._disk.fill()
        self._limit_files(full=True)

    def tick(self, batches: int = 1) -> None:
        """Count batches until it comes back, and until there is room on its disk."""
        if self.full:
            self.full = max(0, self.full - batches)
            if not self.full:
                self._make_room()
        if self.away:
            self.away = max(0, self.away - batches)
            if not self.away:
                self._served.in_thread(self._served.start)

    def _make_room(self) -> None:
        if self._disk:
            self._disk.make_room()
        self._limit_files(full=False)

    def _limit_files(self, *, full: bool) -> None:
        """Limit files of the templates, then of their children; later children inherit it."""
        for find in (self.templates, lambda: descendants(self.pid)):
            for pid in find():
                with contextlib.suppress(ProcessLookupError):
                    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))

    def join(self) -> None:
        """Wait until it listens, unless it is away."""
        self._served.join()

    def freeze(self, pid: int, freeze_s: float = FREEZE_S) -> None:
        """Stop a process; it goes on a moment later."""
        if send_signal(pid, signal.SIGSTOP):
            timer = threading.Timer(freeze_s, send_signal, (pid, signal.SIGCONT))
            timer.start()
            self._timers.append(timer)

    def thaw(self) -> None:
        """Wait until no process is stopped."""
        for timer in self._timers:
            timer.join()
        self._timers.clear()

    def resize(self, rng: random.Random) -> bool:
        """Ask for a drawn number of workers; return whether it answered with that number."""
        workers = rng.randint(1, self._workers)
        if self._workers == 1:
            return False
        try:
            told = ask_to_resize(self._local, workers, RESIZE_S)
        except PeerError:  # it is stopped for longer than that
            return False
        assert told.counters["workers_wanted"] == workers
        return True

    def cut(self, rng: random.Random) -> None:
        """Cut the connections through the proxy: those of messages, of batches, or both."""
        if self._proxy is not None:
            self._proxy.cut(*rng.choice(CUTS))

    def check_idle(self) -> None:
        """Check that it uses what it did before it had clients, with all workers."""
        ask_to_resize(self._local, self._workers, PATIENCE_S)
        wait_until(
            lambda: len(self.workers()) == self._workers and not usage(self.pid) - self._idle,
            lambda: f"uses {usage(self.pid)} without clients, before: {self._idle}",
        )

    def stop(self) -> None:
        """End it in good order; check that nothing is left."""
        pids = descendants(self.pid)
        self._served.stop()
        wait_until(lambda: not any(map(is_there, pids)), lambda: f"of {pids} some are left")
        left = [p.name for p in self._served.folder.glob("*.sock*") if p.suffix != ".lock"]
        assert left == [], left
        self._check_bad()

    def _check_bad(self) -> None:
        """Check that quarantine files have whole lines, of samples that are bad."""
        for file in self._bad.glob("*"):
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            assert {(line["id"], line["field"]) for line in lines} <= BAD.items(), lines

    def close(self) -> None:
        """Kill what still runs; keep the log."""
        self.thaw()
        self._served.close()
        self._stack.close()
        if self._disk:
            (self._served.folder / "log").write_text(self._disk.close())


class Hosts:
    """The daemons of one storm, one or two.

    Attributes:
        hosts: the daemons.
        link: how others than those of this host would reach them.
    """

    def __init__(self, folder: Path, datasets: Mapping[str, Path], seed: int) -> None:
        """Draw them; `play` starts them."""
        drawn, self.link = plan(seed)
        keys = folder / "keys"
        if self.link == KEYS:
            make_keys(keys)
            self._keys = {"key": f"{keys}/client.key", "daemon_key": f"{keys}/daemon.key.pub"}
        else:
            self._keys = {}
        self.hosts = [
            Host(folder / str(number), datasets, each, self.link, keys)
            for number, each in enumerate(drawn)
        ]

    def __enter__(self) -> "Hosts":
        try:
            for host in self.hosts:
                host.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts:
            host.close()

    @property
    def present(self) -> list[Host]:
        """Those that are not away."""
        return [host for host in self.hosts if not host.away]

    def draw_where(self, rng: random.Random, *, several: bool = True) -> str | list[str]:
        """Return an address of a daemon that is there, or a list with one of each."""
        hosts = rng.sample(self.present, len(self.present))
        if not several or rng.random() < 0.2:
            return hosts[0].draw_address(rng)
        if len(hosts) == 1 and rng.random() < 0.8:
            return hosts[0].draw_address(rng)
        return [host.draw_address(rng) for host in hosts]

    def keys_for(self, where: str | Sequence[str]) -> dict[str, str]:
        """Return arguments of a Loader for these addresses."""
        first = [where] if isinstance(where, str) else where
        return self._keys if any(one.startswith("tcp://") for one in first) else {}

    def settle(self) -> None:
        """Wait until those that are starting listen, and those that are stopped go on."""
        for host in self.hosts:
            host.join()
            host.thaw()

    def bring_back(self) -> None:
        """Wait until all are there."""
        for host in self.hosts:
            host.tick(max(host.away, host.full))
        self.settle()


class Drawn(NamedTuple):
    """Decisions of a seed about one daemon."""

    workers: int
    chunk_rows: int
    at_once_bytes: int


def plan(seed: int) -> tuple[list[Drawn], str]:
    """Return what a seed decides about daemons: each of them, and the link.

    Six storms in a row have both numbers with all links.
    """
    rng = random.Random(seed)
    link = (LOCAL, OPEN, KEYS)[seed % 3]
    count = 1 + seed // 3 % 2
    most = (1, 2, 3, 4) if count == 1 else (1, 2)
    at_once_bytes = (0, 2**26)[seed // 6 % 2]
    return [
        Drawn(rng.choice(most), rng.choice(CHUNK_ROWS), at_once_bytes) for _ in range(count)
    ], link


def make_keys(folder: Path) -> None:
    """Make a daemon's key, a client's, and the list of clients."""
    for name in ("daemon", "client"):
        keygen(folder / f"{name}.key")
    clients = folder / "clients"
    clients.write_text((folder / "client.key.pub").read_text())
    clients.chmod(0o600)


def free_port() -> int:
    """Return a port that is free together with the next one.

    Processes of one test run take them from ranges of their own, in turn, and begin anywhere: a
    daemon listens some time after its port was chosen.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = process * PORTS_OF_PROCESS
    while True:
        port = PORTS[(first + 2 * next(_chosen) % PORTS_OF_PROCESS) % len(PORTS)]
        with contextlib.ExitStack() as stack:
            try:
                for number in (port, port + 1):
                    stack.enter_context(socket.create_server(("127.0.0.1", number)))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return port


def usage(pid: int) -> "Counter[str]":
    """Return how many sockets and pieces of shared memory a process has open."""
    found: Counter[str] = Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            found[target.partition(":")[0]] += target.startswith(("socket:", "/memfd:"))
    return +found


def is_there(pid: int) -> bool:
    """Return whether a process runs."""
    return Path(f"/proc/{pid}").exists()


def wait_until(done: Callable[[], bool], what: str | Callable[[], str]) -> None:
    """Wait until something is so, with a deadline."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while not done():
        text = what if isinstance(what, str) else what()
        assert time.monotonic() < deadline, text
        pause.wait(0.02)


def send_signal(pid: int, number: int) -> bool:
    """Send a signal; False if the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
