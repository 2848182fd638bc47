"""The workers: which ones run, their load, and when to start, restart and kill one.

starting -> up -> (killed) -> gone. Numbers are never reused. A worker processes its claims in the
order in which it got them, so only the first one, its head, can hang or have started; the head's
time runs from when it became the head. A killed worker that is not confirmed dead in time is given
up: it is replaced, and keeps its head until it is confirmed dead.

A worker stalls while its head takes more than `STALL` times the average for this many rows, in a
stream whose rows differ much in cost. Rows queued behind one that costs as much as fifty others
would wait for it, and delivery in order would wait for them. So a stalling worker gets only rows of
the newest batch, and claims of older batches that it has not started are recalled.

A worker that compiles is not late: its claim's time begins again when it has ended. It must report
every few seconds that it still compiles, and is killed after `build_deadline_s` without a report.

The number of workers that is wanted is that of the settings until `resize`. A worker that is not
wanted any more retires: it gets no more claims, ends those that it has, and is killed, without
blame.

A stream at whose chunks workers die one after the other, for any reason, is suspected: its rows may
need more memory than there is. As long as others have work, only one worker is set apart for
suspected streams. It gets no other work, so its deaths cost the others nothing but one worker.

Restarts wait longer and longer while workers die quickly (no chunk done, short life). The pool is
broken once no worker is up and either `quick_deaths` in a row died by their own fault, or they died
for `start_deadline_s`, for any reason.
"""

from collections.abc import Iterator
from math import inf

from stoker.server.state.claims import Claim
from stoker.server.state.core_context import CoreContext, backoff_s
from stoker.server.state.core_instructions import KillWorker, StartWorker

STALL = 2.0


class WorkerState:
    """One worker process.

    Attributes:
        number: its number.
        claims: its claims by number, in the order of work.
        load: number of claims that count, see `Claim.behind`.
        up: whether it reported that it is ready.
        killed_at: when it was killed, or None.
        hung: whether it was killed because a chunk took too long.
        with_all: whether the other workers were as silent when it was killed.
        compiling_at: when it last reported that it compiles; None: it does not.
        given_up: whether it was killed and not confirmed dead in time.
        chunks: number of chunks that it has done.
        retires: whether it ends once it has no more claims.
    """

    __slots__ = (
        "chunks", "claims", "compiling_at", "given_up", "head_since", "hung", "killed_at", "load",
        "number", "retires", "started_at", "up", "with_all",
    )  # fmt: skip

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.started_at = now
        self.head_since = now
        self.claims: dict[int, Claim] = {}
        self.load = 0
        self.up = False
        self.killed_at: float | None = None
        self.hung = False
        self.with_all = False
        self.compiling_at: float | None = None
        self.given_up = False
        self.chunks = 0
        self.retires = False

    @property
    def is_listed(self) -> bool:
        """True if it can get claims, now or once it has room."""
        return self.up and self.killed_at is None and not self.retires

    @property
    def head(self) -> Claim | None:
        """The claim that it is working on."""
        return next(iter(self.claims.values()), None)

    def drop_waiting(self) -> list[Claim]:
        """Remove the claims behind its head, and return them."""
        head = self.head
        waiting = [claim for claim in self.claims.values() if claim is not head]
        for claim in waiting:
            del self.claims[claim.number]
        return waiting

    def stalls(self, now: float) -> bool:
        """Return whether its head takes long, in a stream where only a few rows do."""
        head = self.head
        if head is None:
            return False
        expected_s = head.batch.group.stream.uneven_s * (head.hi - head.lo)
        return 0.0 < STALL * expected_s < now - self.head_since


class Pool:
    """All workers, and by load those that can take a claim.

    Attributes:
        workers: by number.
        wanted: how many there should be.
        up: how many of those are up and not killed.
        quick_deaths: workers in a row that died quickly.
        start_deaths: workers in a row that died before they were up.
        own_deaths: those of them that died by their own fault.
        dying_since: when the first of them died.
        done_at: when any worker last ended a chunk.
        hung_at: when any worker was last killed because it hung.
        last_reason: how the last one died.
        closed: whether no worker is started any more.
        apart: the worker for suspected streams; None without one.
    """

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._numbers = 0
        most = max(context.settings.outstanding, context.settings.brief_outstanding)
        self._by_load: list[dict[int, WorkerState]] = [{} for _ in range(most + 1)]
        self._restarts: list[float] = []
        self.workers: dict[int, WorkerState] = {}
        self.wanted = context.settings.workers
        self.up = 0
        self.quick_deaths = 0
        self.start_deaths = 0
        self.own_deaths = 0
        self.dying_since = 0.0
        self.done_at = 0.0
        self.hung_at = -inf
        self.last_reason = ""
        self.closed = False
        self.apart: WorkerState | None = None

    def start(self) -> None:
        """Start all workers."""
        for _ in range(self.wanted):
            self._start_one()

    def resize(self, wanted: int) -> None:
        """Start workers, or let some retire, until there are as many as wanted.

        Those that are not up retire first, then those with least work; one that has work ends it.
        """
        self.wanted = wanted
        if self.closed:
            return
        staying = [one for one in self.workers.values() if not one.retires and not one.given_up]
        more = wanted - len(staying) - len(self._restarts)
        for _ in range(more):
            self._start_one()
        while more < 0 and self._restarts:
            self._restarts.pop()
            more += 1
        staying.sort(key=lambda one: (one.up, one.load, -one.number))
        for worker in staying[: max(-more, 0)]:
            self._retire(worker)

    def begin(self, now: float) -> None:
        """Set the time of the start."""
        for worker in self.workers.values():
            worker.started_at = now

    def came_up(self, number: int) -> None:
        """Note that a worker is ready for work."""
        worker = self.workers.get(number)
        if worker is None or worker.up or worker.killed_at is not None:
            return
        worker.up = True
        self.up += 1
        self.start_deaths = self.own_deaths = 0
        self._by_load[0][number] = worker

    def is_busy(self, number: int, compiling: bool) -> None:
        """Note that a worker compiles, or that it has ended."""
        worker = self.workers.get(number)
        if worker is not None:
            worker.compiling_at = self._context.now if compiling else None
            worker.head_since = self._context.now

    def is_with_all(self, worker: WorkerState) -> bool:
        """Return whether other workers have claims and are silent for long too, as in a freeze."""
        now, limit = self._context.now, self._context.settings.claim_deadline_s
        others = any(other.claims and other is not worker for other in self.workers.values())
        return now - self.done_at > limit / 2 and (others or now - self.hung_at < limit / 2)

    def least_loaded(self, *, brief: bool) -> tuple[WorkerState | None, bool]:
        """Return a worker with room for a claim, one of those with the fewest claims; or None.

        Args:
            brief: whether the claim is of a brief batch.

        Returns:
            The worker, and whether it stalls: such a one only if no other worker has room.
        """
        now, settings = self._context.now, self._context.settings
        found = None
        for level in self._by_load[: settings.brief_outstanding if brief else settings.outstanding]:
            for worker in level.values():
                if worker is self.apart:
                    continue
                if not worker.stalls(now):
                    return worker, False
                found = found or worker
        fits = found is not None and found.load < settings.outstanding
        return (found, True) if fits else (None, False)

    def set_apart(self) -> WorkerState | None:
        """Return the worker for suspected streams, once it has no work; None: it has, or is none.

        It is the least loaded one, and another one must be up.
        """
        if self.apart is None and self.up > 1:
            self.apart = next(worker for level in self._by_load for worker in level.values())
        worker = self.apart
        return None if worker is None or worker.claims else worker

    def behind_stalls(self) -> Iterator[tuple[WorkerState, Claim]]:
        """Yield the last claim of each stalling worker, if others may soon wait for it."""
        for worker in self.workers.values():
            if len(worker.claims) > 1 and worker.stalls(self._context.now):
                last = next(reversed(worker.claims.values()))
                if not last.batch.is_newest:
                    yield worker, last

    def give(self, worker: WorkerState, claim: Claim) -> None:
        """Give a claim to a worker."""
        if not claim.behind:
            del self._by_load[worker.load][worker.number]
            worker.load += 1
            self._by_load[worker.load][worker.number] = worker
        if not worker.claims:
            worker.head_since = self._context.now
        worker.claims[claim.number] = claim

    def take_back(self, number: int, claim: int) -> Claim | None:
        """Remove an ended claim from its worker; None if the worker does not have it."""
        found = self.recall(number, claim)
        if found is not None:
            worker = self.workers[number]
            worker.head_since = self._context.now
            worker.chunks += 1
            self.quick_deaths = 0
            self.done_at = self._context.now
        return found

    def recall(self, number: int, claim: int) -> Claim | None:
        """Remove a claim from its worker; None if the worker does not have it."""
        worker = self.workers.get(number)
        if worker is None or worker.given_up or claim not in worker.claims:
            return None
        found = worker.claims.pop(claim)
        if worker.is_listed and not found.behind:
            del self._by_load[worker.load][number]
            worker.load -= 1
            self._by_load[worker.load][number] = worker
        self._end_retired(worker)
        return found

    def kill(self, worker: WorkerState, reason: str) -> None:
        """Kill a worker; it gets no more claims."""
        self._unlist(worker)
        self._not_apart(worker)
        worker.killed_at = self._context.now
        self._context.out.append(KillWorker(worker.number, reason))
        self._context.log("warning", "worker_killed", worker=worker.number, reason=reason)

    def give_up(self, worker: WorkerState) -> None:
        """Replace a killed worker that is not confirmed dead in time, without waiting."""
        worker.given_up = True
        self._context.log("error", "worker_given_up", worker=worker.number)
        if not worker.retires:
            self._replace(worker)

    def remove(self, number: int, reason: str, *, blame: bool) -> WorkerState | None:
        """Forget a dead worker and arrange its replacement."""
        worker = self.workers.pop(number, None)
        if worker is None:
            return None
        self._unlist(worker)
        self._not_apart(worker)
        context = self._context
        if worker.retires:
            context.log("info", "worker_retired", worker=number, chunks=worker.chunks)
            return worker
        context.counts.worker_deaths += 1
        self.last_reason = reason
        context.log("warning", "worker_down", worker=number, reason=reason, chunks=worker.chunks)
        if not worker.given_up:
            self._replace(worker, blame=blame)
        return worker

    def overdue(self) -> Iterator[WorkerState]:
        """Yield workers that hang: their head or their start takes too long."""
        settings, now = self._context.settings, self._context.now
        for worker in list(self.workers.values()):
            if worker.killed_at is not None:
                continue
            since = worker.head_since if worker.claims else worker.started_at
            limit = settings.claim_deadline_s if worker.claims else settings.worker_start_s
            if worker.compiling_at is not None:
                since, limit = worker.compiling_at, settings.build_deadline_s
            if (worker.claims or not worker.up) and now - since > limit:
                yield worker

    def undead(self) -> Iterator[WorkerState]:
        """Yield workers that were killed and not confirmed dead in time."""
        settings, now = self._context.settings, self._context.now
        for worker in list(self.workers.values()):
            if worker.killed_at is None or worker.given_up:
                continue
            if now - worker.killed_at > settings.confirm_death_s:
                yield worker

    def restart_due(self) -> None:
        """Start workers whose pause is over."""
        if self.closed:
            return
        due = [at for at in self._restarts if at <= self._context.now]
        self._restarts = [at for at in self._restarts if at > self._context.now]
        for _ in due:
            self._start_one()

    @property
    def broken(self) -> bool:
        """True if workers die at their start, and none is up."""
        settings = self._context.settings
        if self.up or self.start_deaths < settings.quick_deaths:
            return False
        lasted = self._context.now - self.dying_since
        return self.own_deaths >= settings.quick_deaths or lasted >= settings.start_deadline_s

    def _replace(self, worker: WorkerState, *, blame: bool = False) -> None:
        settings, now = self._context.settings, self._context.now
        if self.closed:
            return
        if worker.chunks or (worker.up and now - worker.started_at >= settings.quick_death_s):
            self._start_one()
            return
        self.quick_deaths += 1
        if not worker.up:
            self.dying_since = self.dying_since if self.start_deaths else now
            self.start_deaths += 1
            self.own_deaths += blame
        self._restarts.append(now + backoff_s(settings, self.quick_deaths))

    def _start_one(self) -> None:
        self._numbers += 1
        self._context.counts.worker_starts += 1
        self.workers[self._numbers] = WorkerState(self._numbers, self._context.now)
        self._context.out.append(StartWorker(self._numbers))

    def _retire(self, worker: WorkerState) -> None:
        self._unlist(worker)
        self._not_apart(worker)
        worker.retires = True
        self._end_retired(worker)

    def _end_retired(self, worker: WorkerState) -> None:
        """Kill a worker that is not wanted, once it has nothing to do."""
        if worker.retires and not worker.claims and worker.killed_at is None:
            worker.killed_at = self._context.now
            self._context.out.append(KillWorker(worker.number, "it is not wanted any more"))

    def _not_apart(self, worker: WorkerState) -> None:
        if worker is self.apart:
            self.apart = None

    def _unlist(self, worker: WorkerState) -> None:
        if worker.is_listed:
            self.up -= 1
            del self._by_load[worker.load][worker.number]
