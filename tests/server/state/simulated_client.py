"""A client of the simulation: seeks, takes, holds and releases batches, checks each of them."""

from typing import Any

import msgspec
from asking import opening

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
    SetWorkers,
    Status,
    Welcome,
)
from stoker.protocol.remote.shares import HostShare
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.clients import Client as KnownClient
from stoker.server.state.groups.group_delivery import AHEAD_OF_CREDITS

REPLAY = 9


class Client:
    """A training process: takes batches in order, holds some, seeks, misbehaves, vanishes."""

    def __init__(self, world: Any) -> None:
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
        self.share: HostShare | None = None
        self.credits = 0
        self.queue: list[Ready] = []
        self.held: list[Ready] = []
        self.generations: dict[int, int] = {}
        self.taken = 0
        self.tries = 0
        self.closed = False
        self._out_at = self._in_at = 0.0
        world.clients[self.token] = self
        self.attached = False
        hello = Hello(1, 1, "simulated")
        self.owns = self.token[1] % 4 > 0
        world.event(ev.Greeted, self.peer, self.token, hello, "", KnownClient(owns=self.owns))

    # ------------------------------------------------------------ messages

    def welcome(self, do: ins.SendPeer) -> None:
        record = do.records[0]
        if isinstance(record, Error):
            assert record.code == ("connect" if self.world.stopping else "try_again")
            self.world.clients.pop(self.token, None)
            self.world.todo += 1  # it comes again, so the world is not over
            self.world.later(1.0, self.world.new_client)
            return
        assert isinstance(record, Welcome)
        if self.world.chance(0.1):
            return  # never attaches: the deadline ends it
        self.world.later(self.world.random.uniform(0, 0.1), self.attach)

    def attach(self) -> None:
        if not self.closed:
            self.world.event(ev.LifelineUp, self.token)
            self.attached = True
            self.say(self.opening())

    def opening(self) -> Open:
        draw = self.world.random
        world_size = draw.randint(1, 3)
        self.prefetch, self.leases = draw.randint(1, 4), draw.randint(1, 3)
        if self.world.grouped and draw.random() < 0.8:
            return self.wish_to_join()
        return opening(
            request=3, pipeline=f"p{draw.randint(0, 2)}", batch_size=draw.choice([3, 16, 40]),
            rank=draw.randrange(world_size), world_size=world_size, tail="pad",
            seed=draw.randint(0, 1), views=draw.choice([1, 1, 2]),
            prefetch=self.prefetch, leases=self.leases,
        )  # fmt: skip

    def wish_to_join(self) -> Open:
        """Ask to join a group; some ask for another stream than its other members."""
        draw = self.world.random
        self.group = draw.choice(["a", "a", "b"])
        other = draw.random() < 0.1
        return opening(
            request=3, pipeline="p1", batch_size=16 if other else 40,
            rank=draw.randrange(2) if self.group == "b" else 0,
            world_size=2 if self.group == "b" else 1, tail="pad",
            seed=self.token[0] % 2 if self.world.forked else 0, prefetch=self.prefetch,
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
            if isinstance(records[0], SetWorkers) and self.may_have(records[0].workers):
                self.world.wanted = records[0].workers
                self.world.seen["resized"] += 1
            self.world.event(ev.Received, self.token, records)

    def ask_for(self, workers: int) -> None:
        """Ask for another number of workers, also for one that cannot be."""
        self.say(SetWorkers(workers))

    def may_have(self, workers: int) -> bool:
        """Whether the daemon does what it is asked for."""
        there = self.token in self.world.core._sessions.by_token
        return there and self.owns and 1 <= workers <= self.world.settings.workers

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
                self.say(self.opening())
        elif record.code == "usage":
            assert "daemon" in record.message or record.message.startswith("host"), (
                record
            )  # see `misbehave`
        elif record.run is not None and record.run == self.run:
            self.failed(record)
        elif record.code == "access":
            assert not self.owns, record
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
        after = (epoch, step + 1) if step + 1 < self.opened.steps else (epoch + 1, 0)
        return after if self.share is None else self.first(after)

    def first(self, place: tuple[int, int]) -> tuple[int, int]:
        """The first place from a place on whose batch is this daemon's."""
        return self.share.first(*place, lambda epoch: self.opened.steps)

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
        if self.closed or self.opened is None or self.opened.slab != slab:
            return False
        return slot in [b.slot for b in self.queue] or slot in [b.slot for b in self.held]

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
        self.share = self.draw_share()
        shared = ([], 0) if self.share is None else (list(self.share.hosts), self.share.host)
        seek = Seek(self.run, *self.place, [], *shared)
        self.say(Release(freed), seek, Credit(self.run, self.prefetch))
        if self.share is not None:
            self.place = self.first(self.place)
        elif self.place[1] == self.opened.steps:
            self.place = (self.place[0] + 1, 0)

    def draw_share(self) -> HostShare | None:
        """Several daemons may make the stream; this one is any of them, and others come and go."""
        draw = self.world.random
        if self.group is not None or draw.random() < 0.6:
            return None
        self.world.seen["shared seek"] += 1
        count = draw.choice([1, 2, 3, 5])
        keys = [draw.getrandbits(64) for _ in range(count)]
        return HostShare(keys, draw.randrange(count))

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
                    Seek(self.run + 1, 0, 0, [], draw.choice([[7, 7], [7, 8]]), 2),
                    AskStatus(),
                    self.wish_again(),
                    Hello(1, 1, "again"),
                ]
            )
        )

    def wish_again(self) -> Open:
        kept = self.prefetch, self.leases
        record = self.opening()
        self.prefetch, self.leases = kept
        return msgspec.structs.replace(record, request=0)

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
