"""Assigns rows to workers: guided self-scheduling, fair between groups, oldest step first.

Groups with unclaimed rows take turns, one chunk each. A chunk has
`max(least_rows, ceil(rows / (workers * cuts)))` rows of the group's oldest step, at most all its
unclaimed rows or `most_rows`. With views, which share decoded data, it consists of whole positions
as far as that and the rank's cut allow.

While later steps wait, `rows` is the number of rows in a step: equal shares, and few of them,
because a worker that finishes first continues with the next step. In the last step so far, `rows`
is the number of unclaimed rows: shares get smaller, so that all workers end together. If rows cost
little, chunks are larger (`Stream.brief_rows`), as long as the pending work is still about
`outstanding` chunks per worker, and at least one, because each chunk costs the daemon a message.
`Stream` has the bounds and `cuts`, which follow from the cost of rows. If rows are mixed with
others of their row group (`BuildResult.group_rows`), a chunk extends to the end of a group, so that
each row is computed once.

Invariant: after each event the rotation is empty or no worker has room, so no worker is idle while
there is work; except that suspected streams wait for the one worker that is set apart for them.
"""

from collections.abc import Collection

from stoker.protocol.errors import StokerError
from stoker.server.state.bad_samples import BadSamples
from stoker.server.state.claims import Claim
from stoker.server.state.core_context import CoreContext
from stoker.server.state.core_instructions import Assign, Recall, TellStream
from stoker.server.state.groups import forks
from stoker.server.state.groups.group import BatchState, Group, Range
from stoker.server.state.groups.group_delivery import Deliveries
from stoker.server.state.stage_sums import StageSums
from stoker.server.state.workers import Pool, WorkerState
from stoker.server.work.work_records import Done, Work


class Scheduler:
    """Makes claims, and handles finished ones."""

    def __init__(self, context: CoreContext, groups: Deliveries, pool: Pool) -> None:
        self._context = context
        self._groups = groups
        self._pool = pool
        self._bad = BadSamples(context, groups)
        self.stages = StageSums()
        self._numbers = 0
        self.claims = 0

    def assign(self) -> None:
        """Make claims until there is no work or no room."""
        rotation, pool = self._groups.rotation, self._pool
        passed = 0
        assigned: dict[int, list[Work]] = {}
        if pool.apart is not None and not any(map(self.is_suspected, self._all_groups())):
            pool.apart = None
        while passed < len(rotation):
            group = rotation[0]
            if not group.open:
                rotation.popleft().in_rotation = False
                continue
            batch = group.open[0]
            if self.is_suspected(group):
                worker, stalls = pool.set_apart(), False
                if worker is None:  # the others need not wait for it
                    rotation.rotate(-1)
                    passed += 1
                    continue
            else:
                worker, stalls = pool.least_loaded(brief=self._is_brief(group, batch.cut.rows))
            if stalls:
                batch = group.open[-1]
            if worker is None or (stalls and not batch.is_newest):
                break
            passed = 0
            rotation.popleft()
            works = self._claim(worker, batch)
            if group.open:
                rotation.append(group)
            else:
                group.in_rotation = False
            assigned.setdefault(worker.number, []).extend(works)
        for number, works in assigned.items():
            self._context.out.append(Assign(number, tuple(works)))

    def is_suspected(self, group: Group) -> bool:
        """Return whether workers die at the rows of a group, and others could suffer from it."""
        if group.stream.deaths < self._context.settings.suspect_deaths:
            return False
        others = any(one.stream is not group.stream for one in self._all_groups())
        return others and self._pool.wanted > 1

    def _all_groups(self) -> Collection[Group]:
        return self._groups.by_number.values()

    def rest_s(self) -> float:
        """Return for how long no worker needs an answer: 0, or up to `Settings.rest_s`.

        It is half of the smallest amount of work that any worker has queued behind its head, if
        that work is brief. No worker runs out of work in this time, whichever reports arrive,
        even if the daemon then has to wait for a processor, and one turn answers all reports.
        """
        rest_s = self._context.settings.rest_s if self.claims else 0.0
        for worker in self._pool.workers.values():
            if not rest_s:
                break
            if worker.up and worker.killed_at is None:
                rest_s = min(rest_s, _queued_s(worker) / 2)
        return rest_s

    def done(self, number: int, done: Done) -> None:
        """Handle a claim that a worker finished."""
        counts = self._context.counts
        claim = self._pool.take_back(number, done.claim)
        if claim is None:
            counts.stale_results += 1
            return
        batch, rows = claim.batch, claim.hi - claim.lo
        group, stream = batch.group, batch.group.stream
        group.bare_deaths = 0
        counts.chunks += 1
        counts.rows += rows
        counts.home_rows += done.home_rows
        counts.decodes += done.decodes
        counts.worker_seconds += done.wall_s
        counts.worker_cpu_seconds += done.cpu_s
        counts.worker_queued_seconds += max(done.wall_s - done.seconds, 0.0)
        self.stages.add(group.served, done.timed)
        stream.deaths = 0
        counts.replaced_rows += done.replaced_rows
        counts.invalid_rows += done.invalid_rows
        stream.measure(done.seconds, rows, eased=claim.ahead > 0)
        if done.bad:
            self._bad.note(stream, done.bad)
        if stream.suspects:
            stream.acquit(batch.epoch, batch.step, claim.lo, claim.hi)
        if batch.void:
            counts.voided_rows += rows
        else:
            try:
                batch.tell_shapes(done.shapes)
                batch.note_digests(claim.lo, done.digests)
                batch.missing -= rows
            except StokerError as error:
                self._groups.fail(batch, claim.lo, error.to_record())
        self.ended(claim)
        if stream.uneven_s:
            for worker, behind in self._pool.behind_stalls():
                self._context.out.append(Recall(worker.number, behind.number))

    def recalled(self, number: int, claim_number: int) -> None:
        """Make the rows of a claim unclaimed again that was taken back before it was started."""
        claim = self._pool.recall(number, claim_number)
        if claim is None:  # the worker died meanwhile
            return
        self._context.counts.recalled_chunks += 1
        self._groups.reclaim(claim.batch, [Range(claim.lo, claim.hi)])
        self.ended(claim)

    def ended(self, claim: Claim) -> None:
        """Continue after a claim that ended, successfully or not, or was taken back."""
        self.claims -= 1
        self._groups.claim_ended(claim.batch)

    def _claim(self, worker: WorkerState, batch: BatchState) -> list[Work]:
        """Claim rows of a batch, and the same rows for members of a fork that are in step."""
        batches = [batch, *forks.in_step(batch)]
        rows, unit = self._chunk(batches)
        works = []
        for ahead, one in enumerate(batches):
            lo, hi = one.take(rows, 1 if ahead else unit)
            rows, self._numbers = hi - lo, self._numbers + 1
            claim = Claim(self._numbers, one, lo, hi, ahead, len(batches) - 1 - ahead)
            works.append(self._work(worker, claim))
        for one in batches:
            if not one.unclaimed:
                one.group.open.remove(one)
        for one in batches:
            if not one.group.open:
                self._groups.fill(one.group)
        return works

    def _work(self, worker: WorkerState, claim: Claim) -> Work:
        batch, group = claim.batch, claim.batch.group
        slot, slot_bytes = batch.slot, group.slab.slot_bytes
        group.slots.writer_began(slot)
        self.claims += 1
        self._pool.give(worker, claim)
        if worker.number not in group.workers:
            group.workers[worker.number] = None
            self._context.out.append(
                TellStream(worker.number, group.record, group.slab.number, group.slab.size_bytes)
            )
        return Work(
            claim.number, group.number, batch.epoch, batch.step, group.slab.number, slot.index,
            slot.generation, slot.index * slot_bytes, slot_bytes, claim.lo, claim.hi,
            batch.crashed, claim.behind,
        )  # fmt: skip

    def _is_brief(self, group: Group, rows: int) -> bool:
        return all(one.stream.is_brief(rows) for one in group.together)

    def _chunk(self, batches: list[BatchState]) -> tuple[int, int]:
        """Return how many rows to claim of the first batch, and the unit of rows to cut at."""
        batch, group, stream = batches[0], batches[0].group, batches[0].group.stream
        most_rows = forks.most_rows(batches)
        rows = batch.cut.rows if len(group.open) > 1 else batch.unclaimed
        share = -(-rows // (self._pool.up * stream.cuts))
        chunk = max(share, stream.least_rows, self._brief(group, batch))
        chunk = whole_units(min(chunk, most_rows), most_rows, stream.spec.views)
        return chunk, max(one.group.stream.build.group_rows for one in batches)

    def _brief(self, group: Group, batch: BatchState) -> int:
        """Return the rows of a chunk of brief rows, an equal part of a batch; otherwise 0."""
        rows, brief_rows = batch.cut.rows, group.stream.brief_rows
        if not brief_rows or not batch.runs:
            return 0
        claims = self._pool.up * self._context.settings.outstanding
        parts = max(rows // brief_rows, claims // max(group.under_way, 1), 1)
        return -(-rows // parts)


def _queued_s(worker: WorkerState) -> float:
    """Return the seconds of work queued behind a worker's head; 0 unless it is brief."""
    queued_s = 0.0
    for place, claim in enumerate(worker.claims.values()):
        stream, rows = claim.batch.group.stream, claim.hi - claim.lo
        if not stream.is_brief(rows):
            return 0.0
        queued_s += stream.row_s * rows if place else 0.0
    return queued_s


def whole_units(rows: int, most: int, unit: int) -> int:
    """Return a number of rows near `rows` that splits no unit of rows, if `most` allows."""
    above = -(-rows // unit) * unit
    return above if above <= most else rows // unit * unit or rows
