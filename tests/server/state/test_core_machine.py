"""A whole core under any sequence of events, chosen by Hypothesis, which shrinks a failure.

Sessions without a group open or fail to, get the rest of their memory or not, seek with the shares
of several daemons, and leave; builds fail, slabs are refused; workers hang, die, are blamed for
samples, and stay undead after a kill; then the daemon stops. After each event the invariants of
`simulation_checks` hold, and each session has got the batches of its run once and in order.
"""

from types import SimpleNamespace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from simulation_checks import check
from tests.server.state.conftest import Rig, _open, of, result

from stoker.protocol.messages import AskStatus, Close, Credit, Opened, Release, Seek
from stoker.protocol.remote.shares import HostShare
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

STEPS = 3
"""Steps of an epoch: 50 samples in batches of 16."""
MOST = 3
PREFETCH = 4


class Reader:
    """A session: its place, its share, and what it holds."""

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.run = 0
        self.place = (0, 0)
        self.share: HostShare | None = None
        self.held: list[tuple[int, int]] = []
        self.heard = 0

    def from_(self, place: tuple[int, int]) -> tuple[int, int]:
        """The first place from a place on that is this daemon's."""
        epoch, step = place if place[1] < STEPS else (place[0] + 1, 0)
        return (epoch, step) if self.share is None else self.share.first(epoch, step, self.steps)

    def steps(self, epoch: int) -> int:
        return STEPS


class Machine(RuleBasedStateMachine):
    """One daemon with two workers; memory for about three streams."""

    @initialize(
        policy=st.sampled_from(["raise", "replace"]),
        end=st.sampled_from(["sessions end", "drain", "at once"]),
        at_once_bytes=st.sampled_from([0, 0, 2**26]),
    )
    def begin(self, policy: str, end: str, at_once_bytes: int) -> None:
        self.rig = Rig(
            at_once_bytes=at_once_bytes, memory_limit_bytes=80_000, unblamed_deaths=10**6,
            quick_deaths=10**6, max_sessions=MOST, worker_restart_backoff_max_s=0.1,
            claim_deadline_s=2.0, confirm_death_s=1.0,
            crash_policy=policy, concurrent_builds=1, build_deadline_s=1e9,
        )  # fmt: skip
        self.rig.up(1, 2)
        self.readers: list[Reader] = []
        self.reserved: dict[int, int] = {}
        self.growing: dict[int, ins.GrowSlab] = {}
        self.end = end
        self.done = 0
        self.open("well", 1)

    def alive(self) -> list[int]:
        """Workers that have not ended."""
        return sorted(self.rig.core._pool.workers)

    def pick(self, number: int) -> Reader:
        return self.readers[number % len(self.readers)]

    @invariant()
    def invariants_hold(self) -> None:
        if not hasattr(self, "rig"):
            return
        for one in self.rig.said[self.done :]:
            if isinstance(one, ins.ReserveSlab):
                self.reserved[one.slab] = one.size_bytes
            elif isinstance(one, ins.GrowSlab):
                assert one.slab not in self.growing
                self.growing[one.slab] = one
                self.reserved[one.slab] += len(one.slots) * one.slot_bytes
            elif isinstance(one, ins.FreeSlab):
                del self.reserved[one.slab]
                self.growing.pop(one.slab, None)
        self.done = len(self.rig.said)
        left = 0 if of(self.rig.said, ins.Exit) else None
        check(
            SimpleNamespace(
                core=self.rig.core, settings=self.rig.settings, reserved=self.reserved,
                now=self.rig.now, exit=left, wanted=self.rig.settings.workers,
            )
        )  # fmt: skip
        for reader in self.readers:
            self.listen(reader)

    def listen(self, reader: Reader) -> None:
        told = self.rig.ready(reader.token)
        for ready in told[reader.heard :]:
            assert (ready.slot, ready.generation) not in reader.held
            assert ready.slot not in [slot for slot, _ in reader.held]
            reader.held.append((ready.slot, ready.generation))
            if ready.run == reader.run:
                assert (ready.epoch, ready.step) == reader.place
                reader.place = reader.from_((ready.epoch, ready.step + 1))
        reader.heard = len(told)

    @rule(ends=st.sampled_from(["well", "well", "build", "died", "slab"]), leases=st.integers(1, 3))
    def open(self, ends: str, leases: int) -> None:
        """Open a stream, which may fail at each of its stages."""
        if len(self.readers) == MOST:
            return
        rig, token = self.rig, self.rig.hello()
        said = rig.send(token, _open(prefetch=PREFETCH, leases=leases, seed=leases))
        for start in of(said, ins.StartBuild):
            number = start.request.build
            if ends == "build":
                said = rig.do(ev.BuildFailed, number, "build", "no such op", {})
            elif ends == "died":
                said = rig.do(ev.BuildDied, number, "killed by SIGKILL")
            else:
                said = rig.do(ev.Built, result(number))
        for slab in of(said, ins.ReserveSlab):
            self.invariants_hold()
            if ends == "slab":
                del self.reserved[slab.slab]
                said = rig.do(ev.SlabRefused, slab.slab, "no memory")
            else:
                said = rig.do(ev.SlabReserved, slab.slab)
        if of(rig.sent(token), Opened):
            self.readers.append(Reader(token))
            self.seek(len(self.readers) - 1, 0, 0)
        else:
            rig.end(token)

    @precondition(lambda self: self.growing)
    @rule(number=st.integers(0, 2), refuse=st.booleans())
    def grow(self, number: int, refuse: bool) -> None:
        """The rest of a session's memory is there, or the kernel refuses it: the session ends."""
        slab = sorted(self.growing)[number % len(self.growing)]
        growth = self.growing.pop(slab)
        if not refuse:
            self.rig.do(ev.SlabReserved, slab)
            return
        self.reserved[slab] -= len(growth.slots) * growth.slot_bytes
        tokens = list(self.rig.core._groups.by_number[slab].members)  # none: it has left
        said = self.rig.do(ev.SlabRefused, slab, "no memory")
        assert of(said, ins.EndSession) == [ins.EndSession(token) for token in tokens]
        for reader in [one for one in self.readers if one.token in tokens]:
            assert self.rig.errors(reader.token)[-1].code == "resource"
            self.listen(reader)
            self.readers.remove(reader)

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 2), first=st.integers(0, 7), hosts=st.integers(0, 3))
    def seek(self, number: int, first: int, hosts: int) -> None:
        """Seek, alone or as one of up to three daemons."""
        reader = self.pick(number)
        self.listen(reader)
        keys = list(range(11, 11 + hosts))
        reader.share = HostShare(keys, first % hosts) if hosts else None
        reader.run += 1
        place = divmod(first, STEPS)
        reader.place = reader.from_(place)
        shared = (keys, first % hosts) if hosts else ([], 0)
        self.rig.send(
            reader.token, Seek(reader.run, *place, [], *shared), Credit(reader.run, PREFETCH)
        )

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 2))
    def take(self, number: int) -> None:
        """Give the oldest batch back and a credit for another one."""
        reader = self.pick(number)
        if reader.held:
            self.rig.send(reader.token, Release([reader.held.pop(0)]), Credit(reader.run, 1))

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 2), record=st.sampled_from([
        AskStatus(), Seek(0, 0, 0), Credit(10**6, 3), Release([(99, 1)] * 2), _open(),
        Seek(10**6, 0, 0, [], [5, 5], 0),
    ]))  # fmt: skip
    def misbehave(self, number: int, record: object) -> None:
        self.rig.send(self.pick(number).token, record)

    @precondition(lambda self: self.readers)
    @rule(number=st.integers(0, 2), close=st.booleans())
    def leave(self, number: int, close: bool) -> None:
        reader = self.pick(number)
        self.readers.remove(reader)
        if close:
            self.rig.send(reader.token, Close())
        else:
            self.rig.end(reader.token, "die")

    @rule(worker=st.integers(0, 1), count=st.integers(1, 8), well=st.booleans())
    def work(self, worker: int, count: int, well: bool) -> None:
        """End chunks, the last one perhaps with a bad row."""
        number = self.alive()[worker % len(self.alive())]
        if not self.rig.core._pool.workers[number].up:
            self.rig.up(number)
        for left in range(count, 0, -1):
            if number in self.rig.core._pool.workers and self.rig.claims(number):
                if left == 1 and not well:
                    self.rig.fail(number)
                else:
                    self.rig.finish(number)

    @rule(worker=st.integers(0, 1), blame=st.booleans(), sample=st.sampled_from([None, 3, 7]))
    def worker_dies(self, worker: int, blame: bool, sample: int | None) -> None:
        """A worker ends: one that was killed is undead until then."""
        workers = self.alive()
        self.rig.die(workers[worker % len(workers)], blame=blame, sample=sample)
        self.rig.tick(0.2)

    @rule(seconds=st.sampled_from([0.5, 3.0]))
    def time_passes(self, seconds: float) -> None:
        """Workers that do not end their chunks hang; they are killed, and may not die at once."""
        self.rig.tick(seconds)

    def teardown(self) -> None:
        """The daemon stops, or all sessions end and all workers die, and nothing is left."""
        if not hasattr(self, "rig"):
            return
        if self.end != "sessions end":
            self.rig.do(ev.StopAsked, at_once=self.end == "at once")
            self.invariants_hold()
        for reader in self.readers:
            self.rig.end(reader.token)
        self.readers = []
        for number in self.alive():
            self.rig.die(number)
        for _ in range(30):
            self.rig.tick()
            self.invariants_hold()
        assert bool(of(self.rig.said, ins.Exit)) == (self.end != "sessions end")
        left = self.rig.counters()
        if not of(self.rig.said, ins.Exit):
            assert not any(left[name] for name in ("sessions", "groups", "memory_used_bytes"))
            assert not self.reserved


TestCore = Machine.TestCase
TestCore.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
