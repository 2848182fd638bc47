"""A group under any sequence of events: joins, leaves, crashes, lag, seeks, deaths of workers.

Hypothesis chooses the events and shrinks a failure. After each of them the slots add up, and each
member has got every batch of its run once and in order. At the end all members that are left get
the rest of an epoch, however far apart they are: no member waits for another.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.server.state.conftest import Rig, of

from stoker.protocol.messages import Credit, Release, Seek
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.groups.slot_pool import SlotState

STEPS = 3
"""Steps of an epoch: 50 samples in batches of 16."""
REST = 4
"""Batches that each member gets at the end."""
PREFETCH, LEASES = 4, 1
CLAIMS = 8


class Reader:
    """A member's client: what it sought, took and holds."""

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.run = 0
        self.first = 0
        self.held: list[tuple[int, int]] = []
        self.seen = 0
        self.taken = 0

    def place(self, number: int) -> tuple[int, int]:
        """The place of the batch with that number in the run."""
        return divmod(self.first + number, STEPS)


class Group(RuleBasedStateMachine):
    """One group of a daemon with two workers."""

    @initialize(at_once_bytes=st.sampled_from([0, 2**26]))
    def begin(self, at_once_bytes: int) -> None:
        self.rig = Rig(
            at_once_bytes=at_once_bytes,
            memory_limit_bytes=2**20, unblamed_deaths=10**6, quick_deaths=10**6,
            worker_restart_backoff_max_s=0.1, claim_deadline_s=1e9,
        )  # fmt: skip
        self.rig.up(1, 2)
        self.readers: list[Reader] = []
        self.workers = [1, 2]

    def pick(self, number: int) -> Reader:
        return self.readers[number % len(self.readers)]

    def listen(self, reader: Reader) -> None:
        """Read what was announced: in order, once, never a slot that it has."""
        told = [one for one in self.rig.ready(reader.token) if one.run == reader.run]
        for ready in told[reader.seen :]:
            assert (ready.epoch, ready.step) == reader.place(reader.seen)
            assert (ready.slot, ready.generation) not in reader.held
            assert ready.slot not in [slot for slot, _ in reader.held]
            reader.held.append((ready.slot, ready.generation))
            reader.seen += 1

    @precondition(lambda self: len(self.readers) < 4)
    @rule(first=st.integers(0, 7))
    def join(self, first: int) -> None:
        token = self.rig.open(group="g", prefetch=PREFETCH, leases=LEASES, **self.more(first))
        reader = Reader(token)
        self.readers.append(reader)
        self.seek_to(reader, first)

    def more(self, number: int) -> dict[str, object]:
        """Other requests of a member."""
        return {}

    def seek_to(self, reader: Reader, first: int) -> None:
        self.listen(reader)
        reader.run, reader.first, reader.seen = reader.run + 1, first, 0
        reader.taken = len(reader.held)  # those of the older run can be given back
        said = Seek(reader.run, *reader.place(0)), Credit(reader.run, PREFETCH)
        self.rig.send(reader.token, *said)

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 3), first=st.integers(0, 7))
    def seek(self, number: int, first: int) -> None:
        self.seek_to(self.pick(number), first)

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 3))
    def take(self, number: int) -> None:
        """Take a batch: its credit goes back, its slot stays."""
        reader = self.pick(number)
        self.listen(reader)
        if reader.taken < len(reader.held):
            reader.taken += 1
            self.rig.send(reader.token, Credit(reader.run, 1))

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 3))
    def release(self, number: int) -> None:
        """Give back the oldest slot that was taken."""
        reader = self.pick(number)
        self.listen(reader)
        if reader.taken:
            reader.taken -= 1
            self.rig.send(reader.token, Release([reader.held.pop(0)]))

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 3), way=st.sampled_from(["close", "die", "by the daemon"]))
    def leave(self, number: int, way: str) -> None:
        reader = self.pick(number)
        self.readers.remove(reader)
        if way == "by the daemon":
            self.rig.do(ev.LifelineDown, reader.token, by_daemon=True)
        else:
            self.rig.end(reader.token, way)

    @rule(refuse=st.booleans())
    def grow(self, refuse: bool) -> None:
        """The rest of a member's memory is there, or the kernel refuses it: its session ends."""
        for group in self.rig.core._groups.by_number.values():
            growth = group.slab.growing
            if growth is None:
                continue
            ended = ev.SlabRefused if refuse else ev.SlabReserved
            self.rig.do(ended, group.number, *["no"] * refuse)
            self.readers = [r for r in self.readers if not (refuse and r.token == growth.token)]
            return

    @rule(worker=st.integers(0, 1), count=st.integers(1, CLAIMS))
    def work(self, worker: int, count: int) -> None:
        for _ in range(count):
            if self.rig.claims(self.workers[worker]):
                self.rig.finish(self.workers[worker])

    @rule(worker=st.integers(0, 1))
    def kill_worker(self, worker: int) -> None:
        self.rig.die(self.workers[worker])
        self.rig.tick()
        self.workers[worker] = new = max(self.rig.core._pool.workers)
        self.rig.up(new)

    @invariant()
    def slots_add_up(self) -> None:
        if not hasattr(self, "rig"):
            return
        for group in self.rig.core._groups.by_number.values():
            slots, members = group.slots.slots, group.members.values()
            states = Counter(slot.state for slot in slots)
            assert sum(states.values()) == len(slots) <= group.slab.capacity
            assert states[SlotState.SPARE] == 1
            assert sum(member.held for member in members) <= sum(len(s.holders) for s in slots)
            for member in members:
                pending = len(member.run.pending) if member.run else 0
                assert member.held + pending <= member.quota
            for slot in slots:
                assert bool(slot.holders) == (slot.state is SlotState.LEASED)
                assert not (slot.writers and slot.holders)

    @invariant()
    def members_get_every_batch_in_order(self) -> None:
        for reader in getattr(self, "readers", ()):
            self.listen(reader)

    def teardown(self) -> None:
        """Each member alone gets its next batches, while all others stand still."""
        for reader in getattr(self, "readers", ()):
            self.listen(reader)
            self.rig.send(reader.token, Release(reader.held))
            reader.held, reader.taken = [], 0
            goal = reader.seen + REST
            self.rig.send(reader.token, Credit(reader.run, REST))
            for _ in range(REST + 1):
                self.rig.work(tuple(self.workers))
                self.listen(reader)
                self.rig.send(reader.token, Release(reader.held))
                reader.held = []
            assert reader.seen >= goal, "it waits for another member"
        self.close_all()

    def close_all(self) -> None:
        for reader in getattr(self, "readers", ()):
            self.rig.end(reader.token)
        if hasattr(self, "rig"):
            self.rig.work(tuple(self.workers))
            counters = self.rig.counters()
            assert counters["groups"] == counters["memory_used_bytes"] == counters["members"] == 0
            assert len(of(self.rig.said, ins.FreeSlab)) == len(of(self.rig.said, ins.ReserveSlab))


class Fork(Group):
    """The same of a fork: each member has a seed, slots and rows of its own."""

    def more(self, number: int) -> dict[str, object]:
        built = {"decoded_bytes": 900, "usual_bytes": 9}
        return {"mode": "fork", "shuffle_seed": 7, "seed": number % 3, "built": built}


CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]
TestGroup = Group.TestCase
TestGroup.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=CHECKS
)


TestFork = Fork.TestCase
TestFork.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=CHECKS
)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "examples"), [(Group, 250), (Fork, 50)])
def test_many_more_sequences(machine: type[Group], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=80,
            deadline=None,
            suppress_health_check=CHECKS,
        ),
    )
