"""A storm: daemons, streams that are read from them, and kills of everything around them.

Everything is decided by the seed: the daemons, one or two, and their workers; the streams, see
`streams`; how clients reach the daemons, see `hosts`; ranks, groups, prefetch, verification; and
after which batches something happens. There is no clock in it: the next event comes when so many
batches were delivered. The events:

- a worker, or the template with all workers, gets SIGKILL;
- a daemon gets SIGKILL, at once or while its clients wait, and is started again;
- one of two daemons gets SIGKILL, and is started again some batches later;
- a worker or a daemon is stopped by SIGSTOP, and goes on a moment later; a daemon also after its
  clients gave it up;
- connections through a proxy are cut: those for messages, for batches, or both;
- the job takes other addresses of its daemons (`set_hosts`);
- a second training process, which reads the same stream, in the same group or alone, gets SIGKILL;
- the job ends without a word, and one with another number of ranks goes on from its cursor, at
  other daemons.

The batches of every client are compared with the interpreter's stream, batch by batch.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hosts import Host, Hosts, send_signal
from jobs import PATIENCE_S, Job, Reader
from reader import loader_options
from streams import Stream, Streams

SHORT_S, STALL_S = 6.0, 8.0
"""What clients of some streams grant a batch, and for how long a daemon is then stopped."""
HANG_S = 120.0
EVENTS = {
    "": 35, "worker": 50, "template": 2, "daemon": 3, "freeze": 3, "freeze_daemon": 1,
    "resume": 3, "reader_dies": 3, "leave": 3, "stall": 1, "cut": 4, "move": 3,
}  # fmt: skip


class Storm:
    """One storm; `play` raises an AssertionError that names the seed if a byte differs.

    Attributes:
        random: the source of all decisions.
        hosts: the daemons; they run.
        kills: processes that got SIGKILL.
        events: how often each event happened.
    """

    def __init__(self, seed: int, folder: Path, hosts: Hosts, streams: Streams) -> None:
        """Prepare.

        Args:
            seed: decides everything.
            folder: for the output of readers.
            hosts: the daemons; they run.
            streams: draws streams of their datasets.
        """
        self.random = random.Random(seed)
        self.hosts = hosts
        self.kills = 0
        self.events: Counter[str] = Counter()
        self._seed = seed
        self._folder = folder
        self._streams = streams
        self._built: set[str] = set()

    def play(self, kills: int) -> None:
        """Read streams until so many processes were killed; then stop the daemons."""
        while self.kills < kills:
            self._read_stream()
        for host in self.hosts.hosts:
            host.check_idle()
            host.stop()

    def _read_stream(self) -> None:
        """Read one random stream while things happen."""
        stream = self._streams.draw(self.random)
        self.events[f"stream {stream.name}"] += 1
        more: dict[str, object] = {}
        if stream.name in self._built and self.random.random() < 0.3:
            more["timeout_s"] = SHORT_S  # the kernels are there, so the stream opens in time
        self._built |= {stream.name} - {"sent"}
        text = f"seed {self._seed}, after {self.kills} kills"
        reading = Reading(self, stream, more, text, self._folder / f"reader-{self.kills}")
        try:
            reading.read()
        finally:
            reading.close()


class Reading:
    """One stream, its trainings, and what happens to them."""

    def __init__(
        self, storm: Storm, stream: Stream, more: Mapping[str, object], text: str, out: Path
    ) -> None:
        """Open it.

        Args:
            storm: counts.
            stream: what to read.
            more: further arguments of its loaders.
            text: names the storm in errors.
            out: output of its reader.
        """
        rng, hosts = storm.random, storm.hosts
        self._storm, self._stream = storm, stream
        self._text = f"{text}, {_short(stream.data)}"
        self._reader: Reader | None = None
        self._killed = False
        self._job: Job | None = None
        self._data = dict(stream.data)
        self._more = dict(more)
        hosts.bring_back()
        with_reader = rng.random() < 0.25
        self._alone = with_reader and rng.random() < 0.5  # a group is at one daemon
        if self._alone:
            self._data["group"] = f"storm-{storm.kills}"
            self._host = rng.choice(hosts.hosts)
        if with_reader:
            where = self._draw_where()
            data = self._data | hosts.keys_for(where) | {"reconnect_s": PATIENCE_S}
            self._reader = Reader(where, data, out)
        self._open()

    def read(self) -> None:
        """Read all of it."""
        expected, storm = self._stream.expected, self._storm
        count, since = 0, time.monotonic()
        while count < len(expected):
            digest = self._job.next()
            if digest is None:
                continue
            assert digest == expected[count], f"{self._text}: batch {count} at {self._where}"
            assert time.monotonic() - since < HANG_S, f"{self._text}: batch {count} came late"
            count += 1
            for host in storm.hosts.hosts:
                host.tick()
            self._happen()
            since = time.monotonic()
        self._job.finish()
        self._job = None
        storm.hosts.bring_back()
        if self._reader is not None:
            seen = self._reader.received(patient=not self._killed)
            assert seen == expected[: len(seen)], f"{self._text}: a process of its own"
            assert self._killed or len(seen) == len(expected), self._text

    def close(self) -> None:
        """Close what is open."""
        if self._job is not None:
            self._job.close()
        if self._reader is not None:
            self._reader.kill()

    def _draw_where(self) -> str | list[str]:
        rng = self._storm.random
        if self._alone:
            return self._host.draw_address(rng)
        return self._storm.hosts.draw_where(rng)

    def _open(self) -> None:
        """Begin a job, at daemons that are there."""
        storm = self._storm
        storm.hosts.settle()
        self._where = self._draw_where()
        options = loader_options(self._data) | self._more | storm.hosts.keys_for(self._where)
        self._job = Job(self._where, options, storm.random)
        kinds = [self._where] if isinstance(self._where, str) else self._where
        storm.events[" and ".join(sorted(kind.partition(":")[0] for kind in kinds))] += 1

    # ---------------------------------------------------------------- events

    def _happen(self) -> None:
        """Let something happen, or nothing."""
        event = self._storm.random.choices(list(EVENTS), list(EVENTS.values()))[0]
        if event and getattr(self, f"_{event}")():
            self._storm.events[event] += 1

    def _host_there(self) -> Host:
        """Return a daemon that is there, once it listens."""
        host = self._storm.random.choice(self._storm.hosts.present)
        host.join()
        return host

    def _kill(self, pids: list[int]) -> bool:
        killed = bool(pids) and send_signal(self._storm.random.choice(pids), signal.SIGKILL)
        self._storm.kills += killed
        return killed

    def _worker(self) -> bool:
        return self._kill(self._host_there().workers())

    def _template(self) -> bool:
        return self._kill(self._host_there().templates())

    def _daemon(self) -> bool:
        self._storm.kills += 1
        self._host_there().restart(meanwhile=self._storm.random.random() < 0.5)
        return True

    def _leave(self) -> bool:
        """One of two is away for a while; the other one makes its batches."""
        hosts = self._storm.hosts
        if len(hosts.present) < 2 or self._alone or isinstance(self._where, str):
            return False
        if len(self._where) < 2:  # the job moved to one: without it, no batch would bring it back
            return False
        self._storm.kills += 1
        host = self._host_there()
        host.leave(self._storm.random.randrange(1, 25))
        return True

    def _freeze(self) -> bool:
        host = self._host_there()
        workers = host.workers()
        if workers:
            host.freeze(self._storm.random.choice(workers))
        return bool(workers)

    def _freeze_daemon(self) -> bool:
        host = self._host_there()
        host.freeze(host.pid)
        return True

    def _stall(self) -> bool:
        """A daemon is stopped for longer than its clients wait for a batch."""
        if "timeout_s" not in self._more:
            return False
        host = self._host_there()
        host.freeze(host.pid, STALL_S)
        return True

    def _cut(self) -> bool:
        hosts = [host for host in self._storm.hosts.present if host.has_tcp]
        if hosts:
            self._storm.random.choice(hosts).cut(self._storm.random)
        return bool(hosts)

    def _move(self) -> bool:
        """The job takes other addresses, in the middle of an epoch."""
        hosts = self._storm.hosts
        if isinstance(self._where, str) or len(hosts.present) < len(hosts.hosts):
            return False
        hosts.settle()  # all new addresses must answer
        where = hosts.draw_where(self._storm.random)
        self._where = [where] if isinstance(where, str) else where
        self._job.move(self._where)
        return True

    def _resume(self) -> bool:
        """The job ends, and one with other ranks, at other daemons, goes on from its cursor."""
        state = self._job.finish()
        self._job = None
        self._open()
        self._job.resume(state)
        return True

    def _reader_dies(self) -> bool:
        if self._reader is None or self._killed:
            return False
        self._killed = True
        self._storm.kills += 1
        self._reader.kill()
        return True


def _short(data: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in data.items() if name != "graph"}
