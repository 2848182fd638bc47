"""A seeded world round one core: workers, clients and memory, with faults; every event is checked.

Memory is modeled row by row. A worker writes the place (epoch, step, row) of its claim; a
client compares it with its own arithmetic, from the announcement to its release. The
invariants inside of the core are written a second time in `check`, from the slots, claims and
ranges, not from the queues that the core decides by.

`World(seed).play()` plays one seed: a schedule. Its clock is virtual, and the seed decides which of
the things that are under way comes next: a message, the end of a chunk, a death, a deadline. Each
event that the core handles is so one interleaving: one choice among orders that could come in a
real daemon, with all invariants checked after it. A schedule has some hundred of them.

    python tests/server/state/simulation.py SEED           replay a failure, print its last events
    python tests/server/state/simulation.py --seconds 10   print how many are played in a second
"""

import heapq
import random
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from simulated_client import Client
from simulated_outside import Outside
from simulated_worker import Worker, sample_at
from simulation_checks import check

from stoker.protocol.messages import (
    Error,
)
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.core import Core
from stoker.server.state.settings import Settings

LIMIT_S = 2000.0
EVENTS = ev.Event.__subclasses__()


class World(Outside):
    """Everything outside of the core, and the core."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.settings = Settings(
            workers=draw.randint(1, 4),
            memory_limit_bytes=draw.choice([2**17, 2**19, 2**24]),
            datasets={"photos": "/data/photos"},
            pipelines={f"p{i}": f"jobs:p{i}" for i in range(3)},
            claim_deadline_s=2.0,
            min_chunk_s=draw.choice([0.0, 0.001, 0.01]),
            outstanding=draw.randint(1, 3),
            worker_start_s=5.0,
            confirm_death_s=1.0,
            worker_restart_backoff_max_s=4.0,
            max_sessions=draw.randint(2, 6),
            hello_deadline_s=3.0,
            concurrent_builds=draw.randint(1, 2),
            cached_builds=draw.randint(1, 3),
            replay_deadline_s=5.0,
            build_deadline_s=4.0,
            start_deadline_s=3.0,
            group_wait_s=3.0,
            crash_policy=draw.choice(["raise", "replace", "replace"]),
            brief_row_s=(0.0, 0.1, 1e9)[seed % 3],
            brief_batch_s=(0.01, 1e9)[seed // 3 % 2],
            ahead_slot_bytes=(0, 2**23)[seed // 6 % 2],
            session_limit_bytes=(0, 5 * 2**12)[seed % 5 == 4],
            at_once_bytes=(0, 2**26)[seed // 2 % 2],
        )
        self.faults = draw.choice([0.0, 0.05, 0.2])
        self.bad_rows = draw.choice([0, 4, 16, 120])
        self.crash_rows = draw.choice([2, 60])
        self.salt = draw.getrandbits(32)
        self.now = 0.0
        self.calm = False
        self.exit: int | None = None
        self.stopping = False
        self.seen: Counter[str] = Counter()
        self.history: list[tuple[ev.Event, list[ins.Instruction]]] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.workers: dict[int, Worker] = {}
        self.clients: dict[bytes, Client] = {}
        self.todo = draw.randint(1, 4) * (1 + (seed % 2))
        self.memory: dict[int, dict[int, dict[int, object]]] = {}
        self.growing: set[int] = set()
        self.grouped = seed % 2 == 1
        self.group_size = 2 * (seed % 4 == 3)
        self.forked = seed % 8 in (5, 7)
        self.reserved: dict[int, int] = {}
        self.replays: set[int] = set()
        self.builds: set[int] = set()
        self.compiling = False
        self.compiled = 0
        self.compilers = 0
        self.core = Core(self.settings)
        self.wanted = self.settings.workers
        self.carry_out(self.core.start())
        for _ in range(self.todo):
            self.later(draw.uniform(0, 2), self.new_client)
        self.later(0.5, self.tick)
        self.sizes = random.Random(f"sizes of {seed}")
        """Of the changes of the number of workers, which so move no other decision."""
        if seed % 3 == 1:
            self.later(self.sizes.uniform(0, 2), self.resize)

    # ------------------------------------------------------------ time

    def later(self, delay: float, call: Callable[[], None]) -> float:
        self._number += 1
        heapq.heappush(self._queue, (self.now + delay, self._number, call))
        return self.now + delay

    def play(self) -> "World":
        """Play until all clients are done; then nothing must be left."""
        calm_at = self.random.uniform(5, 30)
        while (self.todo or self.clients) and self.exit is None:
            self.now, _, call = heapq.heappop(self._queue)
            self.calm = self.calm or self.now >= calm_at
            call()
            assert self.now < LIMIT_S, f"no progress: {self.core.counters()}"
        if self.random.random() < 0.2:
            self.stop()
        else:
            self.wind_down()
        return self

    def wind_down(self) -> None:
        self.calm = True
        end = self.now + 60
        while self.now < end:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        left = self.core.counters()
        kept = ("sessions", "groups", "streams", "claims", "memory_used_bytes", "builds", "replays")
        for name in kept:
            assert left[name] == 0, (name, left)
        assert left["workers"] == left["workers_up"] == left["workers_wanted"] == self.wanted
        if left["own_decoder"]:
            up = [worker for worker in self.workers.values() if worker.state == "up"]
            assert all(worker.own_decoder for worker in up)
        assert not self.reserved
        assert not self.replays
        core = self.core
        assert not core._openings._waiting
        assert not core._openings._reserving
        assert not core._builds._by_key
        assert not core._sessions._unattached
        assert not [group for group in core._groups.rotation if group.open]

    def stop(self) -> None:
        self.stopping = True
        self.event(ev.StopAsked, at_once=False)
        end = self.now + self.settings.drain_s + 1
        while self.exit is None:
            self.now, _, call = heapq.heappop(self._queue)
            assert self.now < end, "no exit"
            call()
        assert self.exit == 0

    def tick(self) -> None:
        self.event(ev.Tick)
        self.later(0.5, self.tick)

    def resize(self) -> None:
        """Ask for another number of workers through any client, as `stoker resize` does."""
        there = [one for one in self.clients.values() if one.attached and not one.closed]
        if there and not self.stopping:
            self.sizes.choice(there).ask_for(self.sizes.randint(0, self.settings.workers + 1))
        if not self.calm:
            self.later(self.sizes.uniform(0, 3), self.resize)

    def chance(self, probability: float) -> bool:
        return not self.calm and self.random.random() < probability

    # ------------------------------------------------------------ the core

    def event(self, kind: Callable[..., ev.Event], *args: Any, **named: Any) -> None:
        event = kind(self.now, *args, **named)
        ending = [run for run in self.runs() if run.ending and not run.ended]
        said = self.core.handle(event)
        self.seen["goes on after all"] += any(not run.ending for run in ending)
        self.history.append((event, said))
        self.seen[kind.__name__] += 1
        self.carry_out(said)
        check(self)

    def carry_out(self, said: list[ins.Instruction]) -> None:
        for one in said:
            self.seen[type(one).__name__] += 1
            getattr(self, "do_" + type(one).__name__)(one)

    def do_Send(self, do: ins.Send) -> None:
        if do.token in self.clients:
            self.clients[do.token].hear(do.records)
        for record in do.records:
            if isinstance(record, Error) and record.code == "sample" and record.run is not None:
                self.check_first_bad(do.token, record.details)

    def check_first_bad(self, token: bytes, details: Any) -> None:
        """A run ends with the first bad row of a batch; a replaced sample is bad no longer."""
        (group,) = [g for g in self.core._groups.by_number.values() if token in g.members]
        sid, place = group.stream.stream_id, (details["epoch"], details["step"])
        cut, crashed = group.steps.cut(*place), group.crashed(group.members[token].run, *place)
        rows = range(cut.first_row, cut.first_row + cut.rows)
        bad = [row for row in rows if self.fate(sid, *place, row, crashed) == "fail"]
        assert bad[:1] == [details["row"]], (details, bad, crashed)

    def do_SendPeer(self, do: ins.SendPeer) -> None:
        client = self.clients.get(do.peer)
        if client is not None:
            client.welcome(do)

    def do_SendSlab(self, do: ins.SendSlab) -> None:
        assert do.slab in self.memory

    def do_EndSession(self, do: ins.EndSession) -> None:
        client = self.clients.pop(do.token, None)
        if client is not None:
            client.gone()

    # ------------------------------------------------------------ memory and fate

    def runs(self) -> list[Any]:
        return [run for group in self.core._groups.by_number.values() for run in group.runs]

    def holder(self, slab: int, slot: int) -> bool:
        return any(client.holds(slab, slot) for client in self.clients.values())

    def fate(
        self, spec_id: str, epoch: int, step: int, row: int, crashed: tuple[int, ...] = ()
    ) -> str:
        """The effect of a row on its worker: always the same, unless its sample is replaced."""
        if sample_at(epoch, step, row) in crashed:
            return "good"
        value = zlib.crc32(f"{self.salt} {spec_id} {epoch} {step} {row}".encode()) % 4000
        if value >= self.bad_rows:
            return "good"
        if value >= self.crash_rows:
            return "fail"
        return "hang" if value % 2 else "kill"

    def new_client(self) -> None:
        self.todo -= 1
        Client(self)


def replay(world: World) -> None:
    """The same events give the same instructions."""
    core = Core(world.settings)
    core.start()
    for event, said in world.history:
        assert core.handle(event) == said


def rate(seconds: float) -> str:
    """Play new seeds for that processor time; return the numbers of events and of worlds."""
    began, worlds, events = time.process_time(), 0, 0
    while time.process_time() - began < seconds:
        events += len(World(worlds).play().history)
        worlds += 1
    took = time.process_time() - began
    return f"{events / took:,.0f} interleavings (events) and {worlds / took:.0f} schedules a second"


def main() -> None:
    """Replay a seed, or measure."""
    if sys.argv[1] == "--seconds":
        sys.stdout.write(rate(float(sys.argv[2])) + "\n")
        return
    one = World(int(sys.argv[1]))
    try:
        one.play()
    finally:
        for event, said in one.history[-40:]:
            sys.stdout.write(f"{event}\n")
            for instruction in said:
                sys.stdout.write(f"    {instruction}\n")
    sys.stdout.write(f"{one.seen}\n")


if __name__ == "__main__":
    main()
