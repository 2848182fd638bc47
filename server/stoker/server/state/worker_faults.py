"""Reactions to a worker that dies, hangs or fails: claim its rows again, or report an error.

- All claims of a dead worker are redone completely; claims that it had not started are beyond
  suspicion.
- A row that killed or hung a worker (blame) is then claimed alone. After `blamed_deaths` times, at
  any rows of a sample, the stream stops, or, with `crash_policy` "replace", the sample is replaced
  from that step on, in all groups of the stream. Deaths that say nothing about the row count as
  well, up to `unblamed_deaths`. If the claim is known, but not the row, the claim is halved.
- A hang is blamed on the row, unless the worker was stopped (which counts for nothing), waited for
  storage, or waited while all other workers hung too: then it counts as a death that says nothing
  about the row. So a freeze of the pool costs time, but no stream. If two of them hung at different
  rows of one sample (of two batches under way), the second and later ones are blamed on it.
- A worker that dies with claims before it starts one (while it opens their stream) counts against
  the stream of its head: up to `quick_deaths` in a row, or `blamed_deaths` if it hung. Deaths from
  outside count only once they last for `start_deadline_s`.
- A worker that dies at its start counts against all streams: once the pool is broken (`Pool`), runs
  end with an error. Workers are still restarted at the maximum backoff, and a session that seeks
  again is served once one is up.
- A chunk that fails ends its run in turn; a stream that a worker cannot open ends its run at once.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

from stoker.order.compose import dataset_order
from stoker.protocol.cursor import MAX_CRASHED
from stoker.protocol.errors import Detail, ResourceError, StreamStoppedError
from stoker.protocol.remote.shares import Place
from stoker.protocol.subset import excluded_of
from stoker.server.state.builds import Builds
from stoker.server.state.claims import Claim
from stoker.server.state.core_context import CoreContext
from stoker.server.state.core_instructions import Quarantine
from stoker.server.state.events import ChunkFailed, WorkerDown
from stoker.server.state.groups.group import BatchState, Group, Range
from stoker.server.state.groups.group_delivery import Deliveries
from stoker.server.state.scheduler import Scheduler
from stoker.server.state.workers import Pool, WorkerState
from stoker.server.work.work_records import BadSample, BuiltSource

_NEVER: Final = (2**62, 0)
_STOPPED = frozenset("Tt")
_STORAGE = frozenset("D")
_WAITS = frozenset("S")


class Faults:
    """Handles workers that die, hang or fail."""

    def __init__(
        self,
        context: CoreContext,
        groups: Deliveries,
        pool: Pool,
        scheduler: Scheduler,
        builds: Builds,
    ) -> None:
        self._context = context
        self._groups = groups
        self._pool = pool
        self._scheduler = scheduler
        self._builds = builds
        self._told_broken = False

    def worker_down(self, event: WorkerDown) -> None:
        """Handle a worker that is confirmed dead."""
        worker = self._pool.remove(event.worker, event.reason, blame=event.blame)
        if worker is None:
            return
        for group in self._groups.by_number.values():
            group.workers.pop(worker.number, None)
        if worker.given_up:  # its rows have already been claimed again
            for claim in worker.claims.values():
                self._scheduler.ended(claim)
        else:
            self._died(worker, event)

    def _died(self, worker: WorkerState, event: WorkerDown) -> None:
        excused = event.state in _STORAGE or (worker.with_all and event.state in _WAITS)
        stopped = worker.hung and event.state in _STOPPED
        blame = event.blame or (worker.hung and not excused)
        begun = worker.claims.get(event.claim) if event.claim is not None else None
        head = worker.head
        ranges = [] if begun is None else [Range(begun.lo, begun.hi)]
        if (at := begun or head) is not None and not worker.hung:
            at.batch.group.stream.deaths += 1
        if begun is not None and not stopped:  # before a batch ends that may go on without it
            ranges = self._suspect(begun, event, blame, hung=worker.hung)
        for claim in worker.claims.values():
            if claim is not begun:
                self._put_back(claim.batch, [Range(claim.lo, claim.hi)], claim)
        if begun is not None:
            self._put_back(begun.batch, ranges, begun)
        elif head is not None and not stopped:
            self._bare_death(head.batch.group, blame=blame, hung=worker.hung, reason=event.reason)
        elif head is None:
            self._check_start()

    def tick(self) -> None:
        """Kill workers that hang; give up killed workers that do not die."""
        settings = self._context.settings
        for worker in self._pool.overdue():
            head = worker.head
            if head is None:
                self._pool.kill(worker, f"not ready after {settings.worker_start_s:g} s")
                continue
            worker.hung = True
            worker.with_all = self._pool.is_with_all(worker)
            self._pool.hung_at = self._context.now
            self._context.counts.worker_hangs += 1
            self._pool.kill(
                worker,
                f"at rows {head.lo} to {head.hi} of epoch {head.batch.epoch}, step"
                f" {head.batch.step} for more than {settings.claim_deadline_s:g} s",
            )
        for worker in self._pool.undead():
            self._give_up(worker)
        self._check_start()

    def failed(self, event: ChunkFailed) -> None:
        """Handle a claim that failed, or a stream that a worker could not open."""
        fault = (event.code, event.message, event.details)
        if event.claim:
            claim = self._pool.take_back(event.worker, event.claim)
            if claim is None:
                self._context.counts.stale_results += 1
                return
            self._groups.fail(claim.batch, claim.lo, fault)
            self._scheduler.ended(claim)
            return
        group = self._groups.by_number.get(event.stream)
        if group is None:
            return
        group.workers.pop(event.worker, None)
        self._builds.forget(group.stream.build)
        self._groups.end_runs(group, fault)

    def _give_up(self, worker: WorkerState) -> None:
        """Retire the slot of its head, which may still write; put its other claims back."""
        self._pool.give_up(worker)
        head = worker.head
        for claim in worker.drop_waiting():
            self._put_back(claim.batch, [Range(claim.lo, claim.hi)], claim)
        if head is None:
            return
        fresh = self._groups.move(head.batch)
        # A process that cannot be killed waits for storage, which does not blame the row.
        ranges = self._accuse(head, None, False, "cannot be confirmed dead")
        if fresh is not None and not fresh.void:
            fresh.isolate(ranges)

    def _suspect(self, claim: Claim, event: WorkerDown, blame: bool, *, hung: bool) -> list[Range]:
        """Count a death at that claim, at a row and a sample if known; return what is retried."""
        row, sample, batch, now = event.row, event.sample, claim.batch, self._context.now
        if row is not None and not self._may_be_at(claim, row):
            row = sample = None
        if hung and event.state in _WAITS and row is not None and sample is not None:
            since, place = now - self._context.settings.claim_deadline_s / 2, (*batch.place, row)
            blame = blame or batch.group.stream.points_to(sample, place, since)
        hung_at = now if hung else -inf
        return self._accuse(claim, row, blame, event.reason, sample, hung_at)

    def _may_be_at(self, claim: Claim, row: int) -> bool:
        """Return whether a claim computes that row, itself or as one of its row group."""
        unit = claim.batch.group.stream.build.group_rows
        end = -(-claim.hi // unit) * unit
        return claim.lo // unit * unit <= row < min(end, claim.batch.cut.of)

    def _accuse(
        self,
        claim: Claim,
        row: int | None,
        blame: bool,
        reason: str,
        sample: int | None = None,
        hung_at: float = -inf,
    ) -> list[Range]:
        """Count the death; return the ranges in which the claim is retried."""
        batch, lo, hi = claim.batch, claim.lo, claim.hi
        stream, settings = batch.group.stream, self._context.settings
        if row is None and hi - lo == 1:
            row = lo
        if row is None and blame:
            middle = (lo + hi) // 2
            return [Range(lo, middle, True), Range(middle, hi, True)]
        at = lo if row is None else row
        blamed, unblamed = stream.accuse((*batch.place, at), blame, sample, hung_at)
        if blamed >= settings.blamed_deaths or unblamed >= settings.unblamed_deaths:
            if row is not None and sample is None:
                sample = _sample_at(batch, row)
            self._condemn(batch, at, sample, f"{blamed + unblamed} times, the last: {reason}")
        if not blame or not lo <= at < hi:
            return [Range(lo, hi, blame)]
        parts = [Range(lo, at), Range(at, at + 1, True), Range(at + 1, hi)]
        return [part for part in parts if part.hi > part.lo]

    def _condemn(self, batch: BatchState, row: int, sample: int | None, how: str) -> None:
        """Replace a sample that crashed or hung too many workers, or stop its stream."""
        group, context = batch.group, self._context
        stream, place = group.stream, (batch.epoch, batch.step)
        since = None if sample is None else stream.crashed.get(sample)
        if since is not None and since <= place and batch.void:
            return  # begun before the sample was replaced
        known = f"sample {sample}"
        if sample is None:
            bucket = group.steps.bucket(*place)
            known = "a sample" if bucket is None else f"a sample of bucket {bucket.name}"
        facts: dict[str, Detail] = {"epoch": place[0], "step": place[1], "row": row, "id": sample}
        what = f"row {row} of epoch {place[0]}, step {place[1]} ({known} of dataset"
        what = f"{what} {stream.spec.dataset}) killed or hung a worker {how}"
        if sample is not None:
            bad = BadSample(sample, "", "", f"it killed or hung a worker {how}")
            context.out.append(Quarantine(stream.spec.dataset, (bad,)))
        remedy = self._why_not_replaced(group, sample, place)
        if remedy is not None:
            error = StreamStoppedError(f"{what}; the stream has stopped: {remedy}", **facts)
            context.log("error", "stream_stopped", stream=stream.stream_id, **error.details)
            self._groups.stop_stream(stream, error)
            return
        assert sample is not None  # otherwise there would be a remedy
        stream.crashed[sample] = place
        stream.suspects.pop((*place, row), None)
        context.counts.crashed_samples += since is None
        context.log("warning", "sample_crashed", stream=stream.stream_id, how=how, **facts)
        self._groups.rewind(stream, place)

    def _why_not_replaced(self, group: Group, sample: int | None, place: Place) -> str | None:
        """Return the remedy if a sample cannot be replaced from a place on; None if it can.

        It may be replaced already from a later place on, whose batch was computed sooner.
        """
        stream = group.stream
        if sample is None:
            return "leave the sample out, or repair it"
        again = stream.crashed.get(sample, _NEVER) <= place
        if self._context.settings.crash_policy == "raise" or again:
            if group.stream.build.parts:
                name, own = _sample_of(group.stream.build.parts, sample)
                return (
                    f"repair sample {own} of {name!r}, or leave it out: "
                    f"Loader(exclude={{{name!r}: [{own}]}})"
                )
            return f"repair the sample, or leave it out: Loader(exclude=[{sample}])"
        groups = [g for g in self._groups.by_number.values() if g.stream is stream]
        runs = [run for group in groups for run in group.runs]
        if any(len({sample, *stream.crashed, *run.crashed}) > MAX_CRASHED for run in runs):
            return f"{MAX_CRASHED} others are already replaced; leave all of them out with exclude="
        return None

    def _bare_death(self, group: Group, *, blame: bool, hung: bool, reason: str) -> None:
        settings, now = self._context.settings, self._context.now
        group.bare_since = group.bare_since if group.bare_deaths else now
        group.bare_deaths += 1
        limit = settings.blamed_deaths if hung and blame else settings.quick_deaths
        lasts = blame or now - group.bare_since >= settings.start_deadline_s
        # With a worker of its own, its deaths are hardly a coincidence.
        alone = (
            self._scheduler.is_suspected(group) and group.bare_deaths >= settings.unblamed_deaths
        )
        if group.bare_deaths >= limit and (lasts or alone):
            self._groups.stop_stream(
                group.stream,
                StreamStoppedError(
                    f"{group.bare_deaths} workers in a row died before they started any row of the"
                    f" stream, the last: {reason}; see the daemon's log, then open a new session."
                    " With SIGKILL the kernel ends what needs more memory than the cgroup has"
                ),
            )

    def _check_start(self) -> None:
        """End all runs with an error if no worker survives its start."""
        pool = self._pool
        if not pool.broken:
            self._told_broken = False
            return
        if not self._told_broken:
            self._told_broken = True
            deaths = pool.start_deaths
            self._context.log("error", "workers_broken", reason=pool.last_reason, deaths=deaths)
            for group in self._groups.by_number.values():
                self._groups.end_runs(group, broken(pool).to_record())

    def _put_back(self, batch: BatchState, ranges: list[Range], claim: Claim) -> None:
        recomputed = self._groups.reclaim(batch, ranges)
        self._context.counts.recomputed_rows += recomputed
        self._scheduler.ended(claim)


def broken(pool: Pool) -> ResourceError:
    """Return the error for sessions when no worker survives its start."""
    return ResourceError(
        f"no worker survives its start: {pool.start_deaths} in a row died, the last:"
        f" {pool.last_reason}; see the daemon's log",
        deaths=pool.start_deaths,
    )


def _sample_of(parts: Sequence[BuiltSource], sample: int) -> tuple[str, int]:
    """Return the name of the dataset of an id of a mixture, and the sample's id there."""
    for part in parts:
        if sample < part.rows:
            return part.name, sample
        sample -= part.rows
    raise ValueError("the id is beyond the mixture")


def _sample_at(batch: BatchState, row: int) -> int | None:
    """Return the sample at a row of the order; None if only workers know: not of a plain order."""
    spec, selection = batch.group.stream.spec, batch.group.record.served.sources[0].selection
    if spec.order.weights or spec.mix or spec.buckets:
        return None
    excluded = excluded_of(selection.exclude, selection.subset, spec.dataset_rows)
    order = dataset_order(spec, excluded=excluded)
    return int(order.rows(batch.epoch, batch.step, row, row + 1).ids[0])
