"""A worker process of the simulation: does its claims in order, dies, hangs, stalls."""

from collections.abc import Callable
from typing import Any

from stoker.server.state import events as ev
from stoker.server.work.work_records import Done, OpenStream, Work


def sample_at(epoch: int, step: int, row: int) -> int:
    """The sample of a row, as workers tell it."""
    return (epoch * 31 + step * 7 + row) % 10


class Worker:
    """A worker process: does its claims in order, dies, hangs, stalls."""

    def __init__(self, world: Any, number: int) -> None:
        self.world, self.number = world, number
        self.state = "starting"
        self.queue: list[Work] = []
        self.streams: dict[int, OpenStream] = {}
        self.ids: dict[int, str] = {}
        self.speed_s = world.random.choice([0.0005, 0.002, 0.01])
        self.row: int | None = None
        self.sample: int | None = None
        self.own_decoder = 0
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
        self.ids[record.stream] = record.served.spec.stream_id

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
                met = (0, 1, 2)[(work.claim % 50 == 49) + (work.claim % 150 == 149)]
                form = met if met > self.own_decoder else 0
                self.post(ev.ChunkDone, Done(work.claim, seconds, home, wanted_form=form))
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
            place = claim, row, sample, "RS"[self.number % 2]
            self.world.event(ev.WorkerDown, self.number, reason, blame, *place)

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
