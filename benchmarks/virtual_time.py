"""The daemon's decisions in virtual time: the cost of scheduling alone, on any machine.

Drives `Core`, the same state machine that the daemon runs. Simulated workers take exactly the given
time per row, messages take `turn_s` each way, and the consumer takes no time. So the share of time
in which workers work is exact, also on a busy machine. Rows are in order of the stream; steps are
delivered in order, with at most `prefetch` of them under way. `row_by_row` is the bound: a
scheduler that assigns single rows, knows the moment a worker is free, and has to deliver in the
same order.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from stoker.protocol.messages import Credit, DaemonRecord, Hello, Open, Ready, Release, Seek
from stoker.protocol.request.stream_request import (
    BatchRequest,
    DeliveryRequest,
    SourceRequest,
    StreamRequest,
)
from stoker.protocol.slot_layout import Output
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.core import Core
from stoker.server.state.settings import Settings
from stoker.server.work.work_records import BuildResult, BuiltSource, Done, Work

TOKEN = bytes(16)


class VirtualDaemon:
    """One session on one core.

    Attributes:
        chunks: number of chunks computed.
        recalled: number of chunks taken back.
        steps: number of steps delivered.
    """

    def __init__(self, workers: int, batch_size: int, steps: int, prefetch: int) -> None:
        settings = Settings(workers, 2**40, {"data": "/data"}, {"train": "jobs:train"})
        self._core = Core(settings)
        self._now = 1.0
        self._waiting: dict[int, list[Work]] = {number + 1: [] for number in range(workers)}
        self._before: Ready | None = None
        self.chunks = self.steps = self.recalled = 0
        self._core.start()
        for worker in self._waiting:
            self._tell(ev.WorkerUp(self._now, worker, worker))
        self._tell(ev.Greeted(self._now, b"peer", TOKEN, Hello(1, 1, "virtual")))
        self._tell(ev.LifelineUp(self._now, TOKEN))
        self._say(
            Open(
                1,
                StreamRequest(
                    sources=(SourceRequest(dataset="data", pipeline="train"),),
                    batch=BatchRequest(positions=batch_size),
                ),
                DeliveryRequest(prefetch=prefetch, leases=2),
            )
        )
        built = BuildResult(
            1, "content:" + "0" * 32, steps * batch_size, "0" * 32, (Output("label", "int64", ()),),
            (BuiltSource("", "content:" + "0" * 32, steps * batch_size, "0" * 32, b"graph"),),
        )  # fmt: skip
        self._tell(ev.Built(self._now, built))
        self._tell(ev.SlabReserved(self._now, 1))
        self._say(Seek(1, 0, 0), Credit(1, prefetch))

    def work(self, worker: int) -> list[Work]:
        """Return the claims of a worker, in order."""
        return self._waiting[worker]

    def finish(self, worker: int, now: float, seconds: float) -> None:
        """Handle a worker that is done with its head; the consumer takes all complete batches."""
        self._now = now
        self.chunks += 1
        work = self._waiting[worker].pop(0)
        records = self._tell(ev.ChunkDone(now, worker, Done(work.claim, seconds, 0)))
        while ready := [record for record in records if isinstance(record, Ready)]:
            self.steps += len(ready)
            kept = [batch for batch in (self._before, *ready[:-1]) if batch is not None]
            free = Release([(batch.slot, batch.generation) for batch in kept])
            self._before = ready[-1]
            records = self._say(free, Credit(1, len(ready)))

    def _say(self, *records: object) -> list[DaemonRecord]:
        return self._tell(ev.Received(self._now, TOKEN, records))

    def _tell(self, event: ev.Event) -> list[DaemonRecord]:
        records: list[DaemonRecord] = []
        for said in self._core.handle(event):
            if isinstance(said, ins.Assign):
                self._waiting[said.worker] += said.work
            elif isinstance(said, ins.Send):
                records += said.records
            elif isinstance(said, ins.Recall):
                records += self._recall(said)
        return records

    def _recall(self, do: ins.Recall) -> list[DaemonRecord]:
        """Take a claim back; a simulated worker has begun its first claim, and no other."""
        waiting = self._waiting[do.worker]
        (at,) = (at for at, work in enumerate(waiting) if work.claim == do.claim)
        del waiting[at]
        self.recalled += 1
        return self._tell(ev.Recalled(self._now, do.worker, do.claim))


def scheduled(
    costs_s: Sequence[float], workers: int, batch_size: int, prefetch: int = 4, turn_s: float = 0.0
) -> tuple[float, float]:
    """Return (share of the workers' time in which they work, chunks a step).

    Args:
        costs_s: cost of each row, in order of the stream; an incomplete last step is dropped.
        workers: number of workers.
        batch_size: rows per step.
        prefetch: steps under way.
        turn_s: time until a waiting worker gets its next chunk.
    """
    steps = len(costs_s) // batch_size
    before = np.concatenate([[0.0], np.cumsum(costs_s[: steps * batch_size])])
    daemon = VirtualDaemon(workers, batch_size, steps, prefetch)
    running: dict[int, float] = {}
    ends: list[tuple[float, int]] = []
    now = 0.0

    def begin(at: float) -> None:
        for worker in range(1, workers + 1):
            if worker not in running and (work := daemon.work(worker)):
                first = work[0].step * batch_size
                took = float(before[first + work[0].row_hi] - before[first + work[0].row_lo])
                running[worker] = took
                heapq.heappush(ends, (at + took, worker))

    begin(0.0)
    while daemon.steps < steps:
        now, worker = heapq.heappop(ends)
        queued = len(daemon.work(worker)) > 1
        daemon.finish(worker, 1.0 + now, running.pop(worker))
        begin(now if queued else now + turn_s)
    return float(before[-1]) / (workers * now), daemon.chunks / steps


def row_by_row(costs_s: Sequence[float], workers: int, batch_size: int, prefetch: int = 4) -> float:
    """Return the same share for rows that are assigned one by one, at no cost."""
    free = [0.0] * workers
    ready = [0.0] * prefetch
    steps = len(costs_s) // batch_size
    rows: Iterator[float] = iter(costs_s)
    for _ in range(steps):
        end, gate = ready[-1], ready[-prefetch]
        for cost in itertools.islice(rows, batch_size):
            done = max(heapq.heappop(free), gate) + cost
            heapq.heappush(free, done)
            end = max(end, done)
        ready.append(end)
    return float(sum(costs_s[: steps * batch_size])) / (workers * ready[-1])
