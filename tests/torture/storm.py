"""A storm: daemons, streams that are read from them, and kills of everything around them.

Everything is decided by the seed: the daemons, one or two, their workers and chunks; the streams,
see `streams`, and their options, see `options`; how clients reach the daemons, see `hosts`; ranks,
prefetch, verification; groups of 2 to 4 trainings, mirrors or forks, which are at places of their
own; and after which batches something happens. There is no clock in it: the next event comes
after a drawn number of batches. The events:

- a worker, or the template with all workers, gets SIGKILL;
- a daemon gets SIGKILL, at once or while its clients wait, and is started again;
- one of two daemons gets SIGKILL, and is started again some batches later;
- a worker or a daemon is stopped by SIGSTOP, and goes on a moment later; a daemon also after its
  clients gave it up;
- a daemon gets another number of workers (`stoker resize`), from 1 to that of its start;
- connections through a proxy are cut: those for messages, for batches, or both;
- the disk of a daemon is full, and has room again some batches later;
- a job without a group takes other addresses of its daemons (`set_hosts`);
- a training process of its own, which reads the same stream, or is of the same group, gets SIGKILL;
- the trainings end without a word, and go on from their cursors with another number of ranks, at
  other daemons.

The batches of every client are compared with the interpreter's stream, batch by batch.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hosts import Host, Hosts, send_signal
from jobs import PATIENCE_S, Job, Reader, group_options
from streams import Stream, Streams

SHORT_S, STALL_S = 6.0, 8.0
"""Time that clients of some streams grant a batch, and time that a daemon is then stopped."""
HANG_S = 300.0
"""No batch takes longer, also if each process has to compile the kernels."""
EVENTS = {
    "": 35, "worker": 50, "template": 2, "daemon": 3, "freeze": 3, "freeze_daemon": 1,
    "resume": 3, "reader_dies": 3, "leave": 3, "stall": 1, "cut": 4, "move": 3, "full": 4,
    "resize": 4,
}  # fmt: skip
COMPANY = {"alone": 50, "and a reader": 15, "mirror": 20, "fork": 15}
"""Readers of a stream: one training; a second process too; or a group of that mode."""


class Party(NamedTuple):
    """The readers of a stream.

    Attributes:
        streams: of the trainings in this process.
        reader: of a second process; None without one.
        mode: of their group; None: they are not of one.
    """

    streams: list[Stream]
    reader: Stream | None
    mode: str | None

    @property
    def names(self) -> set[str]:
        """Names of the streams."""
        return {stream.name for stream in (*self.streams, *filter(None, [self.reader]))}

    @property
    def told(self) -> str:
        """Description for an error; random pipelines are left out, as the seed has them."""
        shown = [
            {name: value for name, value in stream.data.items() if name != "graph"}
            for stream in self.streams
        ]
        return f"{self.mode or 'no'} group, {shown}"


class Storm:
    """One storm; `play` raises an AssertionError that names the seed if a byte differs.

    Attributes:
        random: the source of all decisions.
        hosts: the daemons; they run.
        kills: processes that got SIGKILL.
        events: how often each event happened.
        full_first: see `__init__`.
    """

    def __init__(
        self, seed: int, folder: Path, hosts: Hosts, streams: Streams, full_first: float = 0.0
    ) -> None:
        """Prepare.

        Args:
            seed: decides everything.
            folder: for the output of readers.
            hosts: the daemons; they run.
            streams: draws streams of their datasets.
            full_first: how often a disk is full before a stream opens: then kernels that are not
                stored yet cannot be stored, and each process compiles them.
        """
        self.random = random.Random(seed)
        self.hosts = hosts
        self.kills = 0
        self.events: Counter[str] = Counter()
        self._seed = seed
        self._folder = folder
        self._streams = streams
        self.full_first = full_first
        self._readings = 0
        self._built: set[str] = set()

    def play(self, kills: int) -> None:
        """Read streams until that number of processes was killed; then stop the daemons."""
        while self.kills < kills:
            self._read_stream()
        for host in self.hosts.hosts:
            host.check_idle()
            host.stop()

    def _read_stream(self) -> None:
        """Read one random stream, or those of a group, while things happen."""
        party = self._draw_party()
        for name in party.names:
            self.events[f"stream {name}"] += 1
        more: dict[str, object] = {}
        if party.names <= self._built and self.random.random() < 0.3:
            more["timeout_s"] = SHORT_S  # the kernels are there, so the stream opens in time
        self._readings += 1
        full = self.events["full"]
        name = f"storm-{self._seed}-{self._readings}"
        reading = Reading(self, party, more, self._folder / name)
        try:
            reading.read()
        except Exception as error:
            error.add_note(f"{name}, after {self.kills} kills, at {reading.where}: {party.told}")
            raise
        finally:
            reading.close()
        if self.events["full"] == full:  # otherwise some kernels may not have been stored
            self._built |= party.names - {"sent"}

    def _draw_party(self) -> Party:
        rng, streams = self.random, self._streams
        company = rng.choices(list(COMPANY), list(COMPANY.values()))[0]
        self.events[company] += 1
        if company in ("alone", "and a reader"):
            stream = streams.draw(rng)
            return Party([stream], stream if company == "and a reader" else None, None)
        count = rng.randrange(2, 5)
        found = [streams.draw(rng)] * count if company == "mirror" else None
        found = found or streams.draw_fork(rng, count)
        if company == "mirror":
            found[0].data["verify"] = rng.random() < 0.6  # the same for all members
        reader = found.pop() if rng.random() < 0.4 else None
        return Party(found, reader, company)


class Reading:
    """The streams of a party, its trainings, and what happens to them.

    Attributes:
        where: the daemons that the trainings use.
    """

    def __init__(self, storm: Storm, party: Party, more: Mapping[str, object], out: Path) -> None:
        """Prepare.

        Args:
            storm: counts.
            party: who reads what.
            more: further arguments of its loaders.
            out: output of its reader; it has the name of the group.
        """
        self._storm, self._party, self._more = storm, party, dict(more)
        self.where: str | list[str] = ""
        self._out = out
        self._reader: Reader | None = None
        self._killed = False
        self._group_at: Host | list[str] | None = None
        most_ranks = 1 if party.mode and party.reader else 2 if party.mode else 3
        self._job = Job(
            party.streams, party.mode, out.name, most_ranks, complete=party.reader is None
        )

    def read(self) -> None:
        """Read all of it."""
        storm = self._storm
        storm.hosts.bring_back()
        if storm.random.random() < storm.full_first:
            storm.events["full"] += self._full(most=5)
        self._start_reader()
        self._open()
        since = time.monotonic()
        while self._job.read(storm.random):
            assert time.monotonic() - since < HANG_S, "a batch came late"
            for host in storm.hosts.hosts:
                host.tick()
            self._happen()
            since = time.monotonic()
        self._job.finish()
        storm.hosts.bring_back()
        if self._reader is not None and self._party.reader is not None:
            expected = self._party.reader.expected
            seen = self._reader.received(patient=not self._killed)
            assert seen == expected[: len(seen)], "batches of a process of its own differ"
            assert self._killed or len(seen) == len(expected), "it did not get all batches"

    def close(self) -> None:
        """Close what is open."""
        self._job.close()
        if self._reader is not None:
            self._reader.kill()

    def _start_reader(self) -> None:
        party, hosts = self._party, self._storm.hosts
        if party.reader is None:
            return
        where = self._draw_where()
        verify = self._storm.random.random() < 0.5
        data = {"verify": verify, **party.reader.data, **hosts.keys_for(where)}
        data["reconnect_s"] = PATIENCE_S
        if party.mode:
            data |= group_options(party.mode, self._out.name, 1)
        self._reader = Reader(where, data, self._out)

    def _draw_where(self) -> str | list[str]:
        """Draw addresses of daemons; members of a group name the same ones all the time."""
        rng, hosts = self._storm.random, self._storm.hosts
        if self._party.mode is None:
            return hosts.draw_where(rng)
        if self._group_at is None:
            drawn = hosts.draw_where(rng)
            one = rng.choice(hosts.present)
            self._group_at = one if isinstance(drawn, str) else drawn
        at = self._group_at
        return at.draw_address(rng) if isinstance(at, Host) else at

    def _open(self, states: list[dict] | None = None) -> None:
        """Begin, or go on at cursors, at daemons that are there."""
        storm = self._storm
        if isinstance(self._group_at, list):
            storm.hosts.bring_back()
        storm.hosts.settle()
        self.where = self._draw_where()
        self._keys = storm.hosts.keys_for(self.where)
        self._job.open(self.where, storm.random, states, **self._more, **self._keys)
        kinds = [self.where] if isinstance(self.where, str) else self.where
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
        if len(hosts.present) < 2 or isinstance(self.where, str):
            return False
        if len(self.where) < 2:  # the job moved to one: without it, no batch would bring it back
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

    def _full(self, most: int = 25) -> bool:
        host = self._host_there()
        if host.full:
            return False
        host.fill(self._storm.random.randrange(1, most))
        return True

    def _resize(self) -> bool:
        """A daemon gets another number of workers, while it computes."""
        return self._host_there().resize(self._storm.random)

    def _move(self) -> bool:
        """The job takes other addresses, in the middle of an epoch."""
        hosts = self._storm.hosts
        if isinstance(self.where, str) or len(hosts.present) < len(hosts.hosts):
            return False
        if self._party.mode:
            return False
        hosts.settle()  # all new addresses must answer
        where = hosts.draw_where(self._storm.random)
        if hosts.keys_for(where) and not self._keys:
            return False  # it began at daemons on this host, where keys are refused
        self.where = [where] if isinstance(where, str) else where
        self._job.move(self.where)
        return True

    def _resume(self) -> bool:
        """The job ends, and one with other ranks, at other daemons, goes on from its cursors."""
        self._open(self._job.finish())
        return True

    def _reader_dies(self) -> bool:
        if self._reader is None or self._killed:
            return False
        self._killed = True
        self._storm.kills += 1
        self._reader.kill()
        return True
