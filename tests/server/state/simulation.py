"""A seeded world round one core: workers, clients and memory, with faults; every event is checked.

Memory is modeled row by row. A worker writes the place (epoch, step, row) that it was told; a
client compares what it sees with its own arithmetic, from the announcement to its release. What is
checked in the core's inside is written down a second time in `check`, from the slots, claims and
ranges, not from the queues that the core decides by. `World(seed).play()` plays one seed;
`python tests/server/state/simulation.py SEED` replays a failure and prints its events.
"""

import heapq
import random
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from stoker.protocol.layout import Output
from stoker.protocol.messages import (
    AskReplay,
    AskStatus,
    Bye,
    Close,
    Credit,
    Error,
    Hello,
    Open,
    Opened,
    Ready,
    Release,
    Seek,
    Status,
    Welcome,
)
from stoker.server.state import events as ev
from stoker.server.state import instructions as ins
from stoker.server.state.core import Core
from stoker.server.state.delivery import AHEAD_OF_CREDITS
from stoker.server.state.settings import Settings
from stoker.server.state.slots import SlotState
from stoker.server.work.records import BuildResult, Done, OpenStream, Work

LIMIT_S = 2000.0
REPLAY = 9
WRITTEN = {SlotState.FILLING, SlotState.CANCELLED, SlotState.RETIRED}


class World:
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
        self.core = Core(self.settings)
        self.carry_out(self.core.start())
        for _ in range(self.todo):
            self.later(draw.uniform(0, 2), self.new_client)
        self.later(0.5, self.tick)

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
        assert left["workers"] == left["workers_up"] == self.settings.workers
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
        """A run ends with the first bad row of a batch, as far as no sample is replaced in it."""
        (group,) = [g for g in self.core._groups.by_number.values() if token in g.members]
        sid, place = group.stream.stream_id, (details["epoch"], details["step"])
        cut, crashed = group.course.cut(*place), group.crashed(group.members[token].run, *place)
        rows = range(cut.first_row, cut.first_row + cut.rows)
        bad = [row for row in rows if self.fate(sid, *place, row, crashed) == "fail"]
        assert details["row"] == bad[0], (details, bad)

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

    def do_StartBuild(self, do: ins.StartBuild) -> None:
        number = do.request.build
        assert number not in self.builds
        self.builds.add(number)
        assert len(self.builds) <= self.settings.concurrent_builds
        outputs = (Output("x", "uint8", (zlib.crc32(do.request.pipeline.encode()) % 900 + 1,)),)
        built = BuildResult(
            number, "content:" + "0" * 32, self.random.choice([40, 100, 1000]),
            f"{zlib.crc32(do.request.pipeline.encode()):032x}", b"", outputs,
            group_rows=self.random.choice([1, 1, 1, 1, 8]), decoded_bytes=9, usual_bytes=9,
        )  # fmt: skip

        def end() -> None:
            if number not in self.builds:  # it was ended
                return
            self.builds.discard(number)
            if self.chance(self.faults):
                self.event(ev.BuildFailed, number, "build", "no such op", {})
            elif self.chance(self.faults):
                self.event(ev.BuildDied, number, "killed by SIGKILL")
            else:
                self.event(ev.Built, built)

        if not self.chance(0.1):  # else it hangs until its deadline
            self.later(self.random.uniform(0, 3), end)

    def do_EndBuild(self, do: ins.EndBuild) -> None:
        self.builds.remove(do.build)
        self.later(0, lambda: self.event(ev.BuildFailed, do.build, "build", do.reason, {}))

    def do_StartReplay(self, do: ins.StartReplay) -> None:
        number = do.request.replay
        self.replays.add(number)
        assert len(self.replays) <= self.settings.concurrent_replays

        def end() -> None:
            if self.chance(self.faults):
                self.replays.discard(number)
                self.event(ev.ReplayFailed, number, "sample", "cannot decode it", {})
            else:
                self.event(ev.ReplayEnded, number, 4096)

        if not self.chance(0.1):  # else it hangs until its deadline
            self.later(self.random.uniform(0, 3), end)

    def do_SendReplay(self, do: ins.SendReplay) -> None:
        self.replays.remove(do.replay)
        assert do.request == REPLAY

    def do_DropReplay(self, do: ins.DropReplay) -> None:
        self.replays.discard(do.replay)

    def do_ReserveSlab(self, do: ins.ReserveSlab) -> None:
        self.reserved[do.slab] = do.size_bytes
        assert sum(self.reserved.values()) <= self.settings.memory_limit_bytes

        def end() -> None:
            if self.chance(self.faults):
                del self.reserved[do.slab]
                self.event(ev.SlabRefused, do.slab, "no memory")
            else:
                self.memory[do.slab] = defaultdict(dict)
                self.event(ev.SlabReserved, do.slab)

        self.later(self.random.uniform(0, 1), end)

    def do_GrowSlab(self, do: ins.GrowSlab) -> None:
        assert do.slab not in self.growing, "one growth of a slab at a time"
        self.growing.add(do.slab)
        size_bytes = len(do.slots) * do.slot_bytes
        self.reserved[do.slab] += size_bytes
        assert sum(self.reserved.values()) <= self.settings.memory_limit_bytes

        def end() -> None:
            self.growing.discard(do.slab)
            if self.chance(self.faults):
                if do.slab in self.reserved:
                    self.reserved[do.slab] -= size_bytes
                self.seen["growth refused"] += 1
                self.event(ev.SlabRefused, do.slab, "no memory")
            else:
                self.event(ev.SlabReserved, do.slab)

        self.later(self.random.uniform(0, 1), end)

    def do_ShrinkSlab(self, do: ins.ShrinkSlab) -> None:
        self.reserved[do.slab] -= len(do.slots) * do.slot_bytes
        for slot in do.slots:
            assert not self.holder(do.slab, slot)
            for worker in self.workers.values():
                assert all((w.slab, w.slot) != (do.slab, slot) for w in worker.writing())
            self.memory[do.slab].pop(slot, None)

    def do_FreeSlab(self, do: ins.FreeSlab) -> None:
        for worker in self.workers.values():
            assert all(work.slab != do.slab for work in worker.writing())
        del self.memory[do.slab], self.reserved[do.slab]

    def do_StartWorker(self, do: ins.StartWorker) -> None:
        assert do.worker not in self.workers
        assert do.worker == 1 + max([0, *self.workers])
        self.workers[do.worker] = Worker(self, do.worker)

    def do_KillWorker(self, do: ins.KillWorker) -> None:
        self.workers[do.worker].killed()

    def do_TellStream(self, do: ins.TellStream) -> None:
        self.workers[do.worker].tell(do.stream)

    def do_ForgetStream(self, do: ins.ForgetStream) -> None:
        self.workers[do.worker].forget(do.stream)

    def do_Assign(self, do: ins.Assign) -> None:
        for work in do.work:
            for other in self.workers.values():
                for mine in other.writing():
                    if (mine.slab, mine.slot) == (work.slab, work.slot):
                        assert mine.generation == work.generation, (mine, work)
                        assert mine.row_hi <= work.row_lo or work.row_hi <= mine.row_lo
            assert not self.holder(work.slab, work.slot), work
            self.workers[do.worker].assign(work)

    def do_Recall(self, do: ins.Recall) -> None:
        worker = self.workers[do.worker]
        unread = [work for work in worker.queue[1:] if work.claim == do.claim]
        if unread and worker.queue[-1] is unread[0] and self.random.random() < 0.9:
            del worker.queue[-1]
            self.later(0.0, lambda: self.event(ev.Recalled, do.worker, do.claim))

    def do_Quarantine(self, do: ins.Quarantine) -> None:
        assert len(do.bad) == 1

    def do_Log(self, do: ins.Log) -> None:
        self.seen[do.event] += 1

    def do_Exit(self, do: ins.Exit) -> None:
        self.exit = do.code

    # ------------------------------------------------------------ memory and fate

    def runs(self) -> list[Any]:
        return [run for group in self.core._groups.by_number.values() for run in group.runs]

    def holder(self, slab: int, slot: int) -> bool:
        return any(client.holds(slab, slot) for client in self.clients.values())

    def fate(
        self, spec_id: str, epoch: int, step: int, row: int, crashed: tuple[int, ...] = ()
    ) -> str:
        """What a row does to who computes it: always the same, unless its sample is replaced."""
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


def sample_at(epoch: int, step: int, row: int) -> int:
    """The sample of a row, as workers tell it."""
    return (epoch * 31 + step * 7 + row) % 10


class Worker:
    """A worker process: does its claims in order, dies, hangs, stalls."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.state = "starting"
        self.queue: list[Work] = []
        self.streams: dict[int, OpenStream] = {}
        self.ids: dict[int, str] = {}
        self.speed_s = world.random.choice([0.0005, 0.002, 0.01])
        self.row: int | None = None
        self.sample: int | None = None
        self.condemned = self.signalled = self.confirmed = False
        self._posted_at = 0.0
        if world.chance(world.faults * 3):
            world.later(world.random.uniform(0, 0.3), lambda: self.die("exit code 1", False))
        elif not world.chance(world.faults / 4):
            world.later(world.random.uniform(0, 1), self.come_up)

    def come_up(self) -> None:
        if self.state == "starting":
            self.state = "up"
            self.world.event(ev.WorkerUp, self.number, self.number)
            if self.world.chance(0.5):
                self.world.later(
                    self.world.random.expovariate(self.world.faults + 0.001), self.shot
                )

    def shot(self) -> None:
        """Somebody outside kills it; says nothing about the row."""
        if self.state == "up" and not self.world.calm:
            self.die("signal 9", False)

    def post(self, kind: Callable[..., ev.Event], *args: Any) -> None:
        """Send to the daemon, in order, with a delay."""
        at = max(self._posted_at, self.world.now + self.world.random.choice([0, 0, 0.001, 0.02]))
        self._posted_at = self.world.later(
            at - self.world.now, lambda: self.world.event(kind, self.number, *args)
        )

    def writing(self) -> list[Work]:
        """Claims that it may still write to: all, of one that was shot dead none but the head."""
        if self.confirmed:
            return []
        return self.queue[:1] if self.signalled else self.queue

    def tell(self, record: OpenStream) -> None:
        assert record.stream not in self.streams
        self.streams[record.stream] = record
        self.ids[record.stream] = record.spec.stream_id

    def forget(self, stream: int) -> None:
        if self.state == "up" and not self.signalled:
            assert all(work.stream != stream for work in self.queue)
        del self.streams[stream]

    def assign(self, work: Work) -> None:
        assert work.stream in self.streams
        assert not self.condemned, "work for a worker that was killed"
        self.queue.append(work)
        live = len(self.queue) if self.state == "up" else 0
        settings = self.world.settings
        most = max(settings.outstanding, settings.brief_outstanding) + 3
        assert live <= most * (6 if self.world.forked else 1)
        if len(self.queue) == 1:
            self.begin()

    def begin(self) -> None:
        if self.state != "up" or not self.queue:
            return
        work, world = self.queue[0], self.world
        stream_id = self.ids[work.stream]
        fates = [
            world.fate(stream_id, work.epoch, work.step, row, work.crashed)
            for row in range(work.row_lo, work.row_hi)
        ]
        stop = next((i for i, fate in enumerate(fates) if fate != "good"), len(fates))
        seconds = (stop + 0.5) * self.speed_s
        if world.chance(world.faults / 10):
            seconds += 3.0
        fate = fates[stop] if stop < len(fates) else "good"
        self.row = work.row_lo + stop // 2
        self.write(work, work.row_lo, self.row)
        world.later(seconds, lambda: self.end(work, work.row_lo + stop, fate, seconds))

    def end(self, work: Work, row: int, fate: str, seconds: float) -> None:
        if self.state != "up" or not self.queue or self.queue[0] is not work:
            return
        self.write(work, work.row_lo, row)
        self.row = row
        self.sample = sample_at(work.epoch, work.step, row)
        if fate == "kill":
            self.die("signal 11", True)
        elif fate == "hang":
            self.world.seen["hang"] += 1
        else:
            del self.queue[0]
            if fate == "good":
                home = self.world.random.randint(0, work.row_hi - work.row_lo)
                self.post(ev.ChunkDone, Done(work.claim, seconds, home))
            else:
                details = {"epoch": work.epoch, "step": work.step, "row": row}
                self.post(ev.ChunkFailed, work.claim, work.stream, "sample", "bad", details)
            self.begin()

    def write(self, work: Work, lo: int, hi: int, torn: bool = False) -> None:
        assert not self.world.holder(work.slab, work.slot), "a writer and a holder"
        memory = self.world.memory[work.slab][work.slot]
        for row in range(lo, hi):
            memory[row] = "torn" if torn else (work.epoch, work.step, row)

    def die(self, reason: str, blame: bool, delay: float = 0.0) -> None:
        if self.state == "dead":
            return
        head = self.queue[0] if self.queue and self.state == "up" else None
        known = head is not None and self.world.random.random() < 0.9
        row = self.row if known and self.world.random.random() < 0.9 else None
        self.state = "dead"
        self.signalled = True

        def seen() -> None:
            self.confirmed = True
            claim = head.claim if known and head is not None else None
            sample = self.sample if row is not None else None
            self.world.event(ev.WorkerDown, self.number, reason, blame, claim, row, sample)

        at = max(self._posted_at, self.world.now + delay + 0.001)
        self.world.later(at - self.world.now, seen)

    def killed(self) -> None:
        """The core had it killed; sometimes the kernel takes its time."""
        self.condemned = self.signalled = True
        if not self.world.chance(0.4):
            self.die("signal 9", False)
            return
        self.world.seen["undead"] += 1
        head = self.queue[0] if self.queue else None
        stay = self.world.random.uniform(0.5, 8)
        for _ in range(3):
            self.world.later(self.world.random.uniform(0, stay), lambda: self.haunt(head))
        self.die("signal 9", False, stay)

    def haunt(self, work: Work | None) -> None:
        """A system call that was under way still writes."""
        if work is not None and not self.confirmed:
            self.write(work, work.row_lo, work.row_lo + 1, torn=True)


class Client:
    """A training process: takes batches in order, holds some, seeks, misbehaves, vanishes."""

    def __init__(self, world: World) -> None:
        self.world = world
        draw = world.random
        self.token = draw.getrandbits(128).to_bytes(16, "big")
        self.peer = self.token
        self.hoards = draw.random() < 0.2
        self.group: str | None = None
        self.pace = draw.choice([1, 1, 1, 30]) if world.grouped else 1
        self.target = draw.randint(0, 25)
        self.opened: Opened | None = None
        self.run = 0
        self.place = (0, 0)
        self.credits = 0
        self.queue: list[Ready] = []
        self.held: list[Ready] = []
        self.generations: dict[int, int] = {}
        self.taken = 0
        self.tries = 0
        self.closed = False
        self._out_at = self._in_at = 0.0
        world.clients[self.token] = self
        world.event(ev.Greeted, self.peer, self.token, Hello(1, 1, "simulated"))

    # ------------------------------------------------------------ messages

    def welcome(self, do: ins.SendPeer) -> None:
        record = do.records[0]
        if isinstance(record, Error):
            assert record.code == ("connect" if self.world.stopping else "resource")
            self.world.clients.pop(self.token, None)
            self.world.later(1.0, self.again)
            return
        assert isinstance(record, Welcome)
        if self.world.chance(0.1):
            return  # never attaches: the deadline ends it
        self.world.later(self.world.random.uniform(0, 0.1), self.attach)

    def again(self) -> None:
        self.world.clients.pop(self.token, None)
        self.world.todo += 1
        self.world.new_client()

    def attach(self) -> None:
        if not self.closed:
            self.world.event(ev.LifelineUp, self.token)
            self.say(self.wish())

    def wish(self) -> Open:
        draw = self.world.random
        world_size = draw.randint(1, 3)
        self.prefetch, self.leases = draw.randint(1, 4), draw.randint(1, 3)
        if self.world.grouped and draw.random() < 0.8:
            return self.wish_to_join()
        return Open(
            request=3, dataset="", pipeline=f"p{draw.randint(0, 2)}", graph=b"",
            batch_size=draw.choice([3, 16, 40]), rank=draw.randrange(world_size),
            world_size=world_size, shuffle=True, tail="pad", seed=draw.randint(0, 1), freeze={},
            views=draw.choice([1, 1, 2]), total_epochs=None, on_error="raise",
            prefetch=self.prefetch, leases=self.leases, group=None,
        )  # fmt: skip

    def wish_to_join(self) -> Open:
        """Ask to join a group; some ask for another stream than its other members."""
        draw = self.world.random
        self.group = draw.choice(["a", "a", "b"])
        other = draw.random() < 0.1
        return Open(
            request=3, dataset="", pipeline="p1", graph=b"", batch_size=16 if other else 40,
            rank=draw.randrange(2) if self.group == "b" else 0,
            world_size=2 if self.group == "b" else 1, shuffle=True, tail="pad",
            seed=self.token[0] % 2 if self.world.forked else 0, freeze={},
            views=1, total_epochs=None, on_error="raise", prefetch=self.prefetch,
            leases=self.leases, group=self.group, group_size=self.world.group_size,
            **({"mode": "fork", "shuffle_seed": 5} if self.world.forked else {}),
        )  # fmt: skip

    def say(self, *records: Any) -> None:
        """Send records in one message, in order, with a delay."""
        at = max(self._out_at, self.world.now + self.world.random.choice([0, 0.001, 0.05]))
        self._out_at = self.world.later(at - self.world.now, lambda: self.said(records))

    def said(self, records: tuple[Any, ...]) -> None:
        if not self.closed:
            self.closed = any(isinstance(record, Close) for record in records)
            self.world.event(ev.Received, self.token, records)

    def hear(self, records: tuple[Any, ...]) -> None:
        at = max(self._in_at, self.world.now + self.world.random.choice([0, 0.001, 0.05]))
        self._in_at = self.world.later(at - self.world.now, lambda: self.heard(records))

    def heard(self, records: tuple[Any, ...]) -> None:
        for record in records:
            if not self.closed:
                getattr(self, "on_" + type(record).__name__)(record)

    def on_Opened(self, record: Opened) -> None:
        more = AHEAD_OF_CREDITS if self.world.settings.ahead_slot_bytes else 0
        assert record.slots - self.prefetch - self.leases - 1 in (0, more)
        self.opened = record
        self.seek()
        self.world.later(0.1, self.step)

    def on_Error(self, record: Error) -> None:
        self.world.seen["error " + record.code] += 1
        self.tries += 1
        if record.request == REPLAY:
            self.tries -= 1
            assert record.code in ("sample", "usage")
        elif record.request:
            if self.tries > 3:
                self.leave()
            else:
                self.say(self.wish())
        elif record.run is not None and record.run == self.run:
            self.failed(record)
        elif record.run is None:
            assert record.code == "protocol"

    def failed(self, record: Error) -> None:
        """The run ended: with a bad row of the batch that was next, or a stopped stream."""
        place = self.place
        for _ in self.queue:
            place = self.following(place)
        if record.code == "sample":
            details = record.details
            assert (details["epoch"], details["step"]) == place
        elif record.code == "stream_stopped" and "row" in record.details:
            details = record.details
            fate = self.world.fate(
                self.opened.stream, details["epoch"], details["step"], details["row"]
            )
            # Shots from outside count to a high limit; the others are truly to blame.
            assert fate in ("kill", "hang") or self.world.faults, details
        if self.tries > 4 or record.code == "stream_stopped":
            self.leave()
        else:
            self.seek()

    def on_Ready(self, record: Ready) -> None:
        if record.run != self.run:
            assert record.run < self.run
            self.say(Release([(record.slot, record.generation)]))
            return
        expected = self.place
        for _ in self.queue:
            expected = self.following(expected)
        assert (record.epoch, record.step) == expected, (record, expected)
        assert not any(held.slot == record.slot for held in self.queue + self.held)
        assert record.generation > self.generations.get(record.slot, 0)
        self.generations[record.slot] = record.generation
        self.credits -= 1
        assert self.credits >= 0, "a batch without a credit"
        self.queue.append(record)
        self.verify(record)

    def on_Status(self, record: Status) -> None:
        assert record.counters["sessions"] >= 1

    def on_Bye(self, record: Bye) -> None:
        self.closed = True

    # ------------------------------------------------------------ what it does

    def rows(self) -> tuple[int, int]:
        return self.opened.first_row, self.opened.first_row + self.opened.rows

    def following(self, place: tuple[int, int]) -> tuple[int, int]:
        epoch, step = place
        return (epoch, step + 1) if step + 1 < self.opened.steps else (epoch + 1, 0)

    def verify(self, record: Ready) -> None:
        """Every row is there, as its place says."""
        memory = self.world.memory[record.slab][record.slot]
        for row in range(*self.rows()):
            assert memory.get(row) == (record.epoch, record.step, row), (
                record,
                row,
                memory.get(row),
            )

    def holds(self, slab: int, slot: int) -> bool:
        return not self.closed and any(
            b.slab == slab and b.slot == slot for b in self.queue + self.held
        )

    def seek(self) -> None:
        freed = [(b.slot, b.generation) for b in self.queue]
        self.queue.clear()
        self.run += self.world.random.choice([1, 1, 5])
        self.place = (
            self.world.random.randint(0, 3),
            self.world.random.randint(0, self.opened.steps),
        )
        if self.group is not None and self.world.random.random() < 0.8:
            self.place = (0, min(self.world.random.randint(0, 2), self.opened.steps))
        self.credits = self.prefetch
        self.say(Release(freed), Seek(self.run, *self.place), Credit(self.run, self.prefetch))
        if self.place[1] == self.opened.steps:
            self.place = (self.place[0] + 1, 0)

    def step(self) -> None:
        if self.closed:
            return
        draw = self.world.random
        if self.world.chance(self.world.faults / 4):
            self.vanish()
            return
        if self.world.chance(0.03):
            self.misbehave()
        if self.world.chance(0.03):
            self.seek()
        if self.world.chance(0.05):
            self.say(AskReplay(REPLAY, draw.randint(0, 45), 0, 0, 0))
        if self.queue:
            self.take()
        if self.held and not self.hoards and draw.random() < 0.7:
            self.give_back(self.held.pop(draw.randrange(len(self.held))))
        if self.taken >= self.target:
            self.leave()
        else:
            self.world.later(draw.choice([0.001, 0.01, 0.1]) * self.pace, self.step)

    def take(self) -> None:
        record = self.queue.pop(0)
        self.place = self.following(self.place)
        self.taken += 1
        self.tries = 0
        self.verify(record)
        self.held.append(record)
        self.credits += 1
        self.say(Credit(self.run, 1))
        if len(self.held) > self.opened.slots - 2:
            self.give_back(self.held.pop())

    def give_back(self, record: Ready) -> None:
        self.verify(record)
        self.say(Release([(record.slot, record.generation)]))

    def misbehave(self) -> None:
        draw = self.world.random
        self.say(
            draw.choice(
                [
                    Release([(draw.randint(0, 20), draw.randint(0, 9) + 10**6)] * 3),
                    Credit(self.run + 7, 3),
                    Seek(0, 0, 0),
                    AskStatus(),
                    self.wish_again(),
                    Hello(1, 1, "again"),
                ]
            )
        )

    def wish_again(self) -> Open:
        kept = self.prefetch, self.leases
        record = self.wish()
        self.prefetch, self.leases = kept
        return Open(**{n: getattr(record, n) for n in record.__struct_fields__} | {"request": 0})

    def leave(self) -> None:
        if self.world.random.random() < 0.5:
            self.say(Close())
        else:
            self.vanish()

    def vanish(self) -> None:
        self.closed = True
        self.world.event(ev.LifelineDown, self.token)

    def gone(self) -> None:
        self.closed = True


def check(world: World) -> None:
    """The invariants, from the core's data."""
    core, settings = world.core, world.settings
    pool, groups = core._pool, core._groups
    claims = [claim for worker in pool.workers.values() for claim in worker.claims.values()]
    assert len(claims) == core._scheduler.claims
    writers = Counter(id(claim.batch.slot) for claim in claims)
    rows = Counter()
    for claim in claims:
        rows[id(claim.batch)] += claim.hi - claim.lo
    used_bytes = sum(group.used_bytes for group in groups.by_number.values())
    forks = groups.forks.by_number.values()
    used_bytes += sum(fork.size_bytes for fork in forks) * settings.workers
    assert used_bytes == core._budget.used_bytes <= settings.memory_limit_bytes
    for group in groups.by_number.values():
        waiting = [growth for growth in group.growths if growth is not group.growths[0]]
        if group.growths and not group.growing:
            waiting = list(group.growths)
        promised = sum(len(growth.slots) for growth in waiting) * group.slot_bytes
        unfreed = len(group.slots.left) * group.slot_bytes
        assert world.reserved[group.slab] == group.used_bytes - promised, unfreed
    assert len(core._sessions.by_token) <= settings.max_sessions
    assert all(group.number in groups.by_number for fork in forks for group in fork.groups)
    assert all(fork.groups for fork in forks)
    work = False
    for group in groups.by_number.values():
        assert group.claims == sum(claim.batch.group is group for claim in claims)
        check_slots(group, writers)
        if not group.closing:
            check_sharing(group)
            for member in group.members.values():
                check_run(group, member, rows)
                limit_bytes = settings.session_limit_bytes or used_bytes
                assert member.quota * group.slot_bytes <= limit_bytes
            work = work or any(b.unclaimed for run in group.runs for b in run.pending)
    if work and world.exit is None:
        for worker in pool.workers.values():
            room = 1 if worker.stalls(world.now) else settings.outstanding
            idle = worker.up and worker.killed_at is None and len(worker.claims) < room
            assert not idle, "work and an idle worker"


def check_slots(group: Any, writers: Counter[int]) -> None:
    slots, free = group.slots.slots, group.slots._free
    assert sorted(s.index for s in free) == [s.index for s in slots if s.state is SlotState.FREE]
    states = Counter(slot.state for slot in slots)
    assert states[SlotState.SPARE] <= 1 <= states[SlotState.SPARE] + states[SlotState.RETIRED]
    for slot in slots:
        assert slot.writers == writers[id(slot)]
        assert not slot.writers or slot.state in WRITTEN
        assert bool(slot.holders) == (slot.state is SlotState.LEASED)
    pending = {id(batch.slot) for run in group.runs for batch in run.pending}
    for slot in slots:
        under_way = slot.state in (SlotState.FILLING, SlotState.READY)
        leased = slot.state is SlotState.LEASED
        assert group.closing or leased or under_way == (id(slot) in pending), slot.state


def check_sharing(group: Any) -> None:
    """Slots, members and the batches in the slots agree."""
    slots = group.slots.slots
    states = Counter(slot.state for slot in slots)
    present = len(slots) - states[SlotState.GONE] - states[SlotState.COMING]
    assert (
        group.used_bytes
        == (present + states[SlotState.COMING] + len(group.slots.left)) * group.slot_bytes
    )
    assert not (group.slots.owed and group.slots._free)
    quotas = sum(member.quota for member in group.members.values())
    assert present - 1 - group.slots.owed == quotas, "each member has brought its slots"
    runs = {id(run) for run in group.runs}
    waited = 0
    for index, batch in group.by_slot.items():
        assert batch.slot is slots[index]
        assert batch.slot.state not in (SlotState.FREE, SlotState.GONE, SlotState.CANCELLED)
        assert all(id(run) in runs and batch in run.pending for run in batch.runs)
        assert batch.slot.holders <= batch.had
        waited += bool(batch.runs)
    assert waited == group.under_way
    for slot in slots:
        if slot.state in (SlotState.READY, SlotState.LEASED, SlotState.KEPT, SlotState.FILLING):
            assert slot.index in group.by_slot, slot.state
    for batch in group.by_place.values():
        assert group.by_slot[batch.slot.index] is batch
    held = Counter(token for slot in slots for token in slot.holders)
    for token, member in group.members.items():
        pending = len(member.run.pending) if member.run else 0
        assert member.held == held[token]
        assert member.held + pending <= member.quota
    if group.starved:
        idle = states[SlotState.FREE] + states[SlotState.KEPT]
        assert not idle, "a member waits for a slot, and one is idle"
        assert states[SlotState.CANCELLED] + states[SlotState.RETIRED], "waits for another member"


def check_run(group: Any, member: Any, rows: Counter[int]) -> None:
    run = member.run
    if run is None:
        return
    assert group.record.fork or len(run.pending) <= run.credits + AHEAD_OF_CREDITS
    assert [b.place for b in run.pending] == sorted({b.place for b in run.pending})
    for batch in run.pending:
        unclaimed = sum(r.hi - r.lo for r in batch.ranges)
        assert batch.unclaimed == unclaimed
        assert not batch.void
        if batch.failure is None:
            assert batch.missing == unclaimed + rows[id(batch)]
        assert (batch in group.open) == (unclaimed > 0)
        assert run in batch.runs
    if run.pending:
        waits = run.pending[0].missing or not run.credits
        assert waits, "a batch in turn that is not announced"
    failed = any(batch.failure is not None for batch in run.pending)
    assert run.ended or run.ending == failed, "a run ends in the turn of a batch that failed"
    idle = group.slots._free or any(s.state is SlotState.KEPT for s in group.slots.slots)
    if not group.gate.is_open:
        assert not run.pending
    elif not run.ended and not run.ending and idle and member.has_room and not group.open:
        assert len(run.pending) >= run.credits, "a free slot, a credit and no batch begun"
    assert not run.ended or not run.pending


def replay(world: World) -> None:
    """The same events give the same instructions."""
    core = Core(world.settings)
    core.start()
    for event, said in world.history:
        assert core.handle(event) == said


if __name__ == "__main__":
    one = World(int(sys.argv[1]))
    try:
        one.play()
    finally:
        for event, said in one.history[-40:]:
            sys.stdout.write(f"{event}\n")
            for instruction in said:
                sys.stdout.write(f"    {instruction}\n")
    sys.stdout.write(f"{one.seen}\n")
