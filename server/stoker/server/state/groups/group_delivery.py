"""Delivery to the members of groups: seek, take credits, begin steps, announce, fail, close.

A run waits for its next steps while its member has room and fewer batches are pending than the
client has granted credits. `sharing` finds a step that is there already, or a slot for a new one.
Brief batches may run `AHEAD_OF_CREDITS` further ahead, so that workers continue
while READY travels to the client and its credit travels back:

    len(pending) <= credits + AHEAD_OF_CREDITS, except in `forks`.

A complete batch waits until all earlier batches of the run are announced. Announcing costs one
credit and leases the slot to the session. A new SEEK voids batches that are not announced and that
no other run waits for; announced batches stay leased until their RELEASE. A batch that fails ends
each run that waits for it in its turn: the batches before it are delivered first, then the error.
"""

from bisect import insort
from collections import deque
from operator import attrgetter

from stoker.protocol.chain import batch_of_rows, chain_on, chain_start
from stoker.protocol.errors import ProtocolError, ResourceError, StokerError, UsageError
from stoker.protocol.messages import Credit, Ready, Release, Seek
from stoker.protocol.remote.shares import HostShare, Place
from stoker.server.state.budget import Budget
from stoker.server.state.core_context import CoreContext, Fault, error_record
from stoker.server.state.core_instructions import ForgetStream, FreeSlab
from stoker.server.state.groups import forks, sharing
from stoker.server.state.groups.group import BatchState, Group, Member, Range, Run
from stoker.server.state.groups.slot_pool import SlotState
from stoker.server.state.served_streams import Stream, Streams

MAX_CREDITS = 2**48
AHEAD = 64
AHEAD_OF_CREDITS = 8
_serial = attrgetter("serial")


class Deliveries:
    """All groups, and the rotation of those with unclaimed rows."""

    def __init__(self, context: CoreContext, streams: Streams, budget: Budget) -> None:
        self._context = context
        self._streams = streams
        self._budget = budget
        self.by_number: dict[int, Group] = {}
        self.rotation: deque[Group] = deque()

    def seek(self, group: Group, token: bytes, record: Seek) -> None:
        """Begin a run of a member.

        Raises:
            ProtocolError: the run's number does not increase; nothing changes.
            UsageError: the epoch has no such step, and the run delivers nothing; or there are too
                many crashed samples, or one is not in the dataset, and nothing changes.
            StokerError: the stream has stopped; the run delivers nothing.
        """
        member = group.members[token]
        before = member.run
        if before is not None and record.run <= before.number:
            raise ProtocolError(
                f"SEEK: expected a run above {before.number}, got {record.run}; runs must increase"
            )
        group.stream.check_crashed(record.crashed)
        share = HostShare(record.hosts, record.host) if record.hosts else None
        if before is not None:
            self._void(group, before, 0)
        member.run = run = Run(record.run, record.epoch, record.step, record.crashed)
        member.tally.end_wait(self._context.now)
        run.share = share
        if group.record.verify:
            run.chain = chain_start(group.stream.stream_id, run.epoch, run.step)
        steps = group.steps.count(run.epoch)
        if run.step == steps:
            run.epoch, run.step = run.epoch + 1, 0
        run.ended = run.step > steps or group.stopped is not None
        self.freed(group)
        if group.stopped is not None:
            raise group.stopped
        if run.ended:
            raise _wrong_step(record, steps)
        if share is not None:
            run.epoch, run.step = share.first(run.epoch, run.step, group.steps.count)

    def credit(self, group: Group, token: bytes, record: Credit) -> None:
        """Add credits to the member's run; credits for another run are void."""
        member = group.members[token]
        run = member.run
        if run is not None and run.number == record.run:
            run.credits = min(run.credits + record.batches, MAX_CREDITS)
            run.window = run.window or run.credits
            if run.credits >= run.window > 0 and not run.ended:
                member.tally.begin_wait(self._context.now)
            self._deliver(group, member)

    def release(self, group: Group, token: bytes, record: Release) -> None:
        """Release slots; stale pairs are counted and ignored."""
        member = group.members[token]
        for index, generation in record.slots:
            if group.slots.release(index, generation, token):
                member.held -= 1
                member.tally.note_return(self._context.now)
            else:
                self._context.counts.stale_releases += 1
        group.starved |= group.record.fork > 0
        self.freed(group)

    def fill(self, group: Group) -> None:
        """Begin the next steps of all runs, as far as credits and slots allow."""
        group.starved = False
        for member in group.members.values():
            self.fill_run(group, member)

    def fill_run(self, group: Group, member: Member) -> None:
        """Begin the next steps of a member's run, and the same of its mates in a fork.

        At most `AHEAD` of a group have unclaimed rows at a time, however many credits a client
        grants, so one event never begins more. The scheduler calls `fill` when all are claimed.
        """
        if self._begin(group, member, forks.front(group, member)):
            for mate in group.together[1:]:
                for other in mate.members.values():
                    self._begin(mate, other, forks.reach(mate, other, member.place))

    def _begin(self, group: Group, member: Member, front: Place) -> bool:
        """Begin steps as far as slots, and beyond the front also credits, allow; whether any."""
        run = member.run
        if run is None or run.ended or run.ending or not group.cohort.is_open:
            return False
        begun = run.begun
        granted = run.credits or run.begun
        brief = bool(granted) and group.stream.is_brief(group.steps.largest.rows)
        pending, limit = run.pending, run.credits + AHEAD_OF_CREDITS * brief
        while member.has_room and (len(pending) < limit or run.place < front):
            batch = sharing.find(group, member, run)
            if batch is None:
                if len(group.open) >= AHEAD:
                    break
                slot = sharing.take_slot(self._context.counts, group)
                if slot is None:
                    group.starved = True
                    break
                batch = group.begin(run.place, group.crashed(run, *run.place), slot)
            sharing.wait_for(run, batch)
            run.advance(group.steps.count)
        self._queue(group)
        if pending and not pending[0].missing:
            self._deliver(group, member)
        return run.begun > begun

    def claim_ended(self, batch: BatchState) -> None:
        """Continue with slot, batch and group after a claim has ended, successfully or not."""
        group = batch.group
        group.slots.writer_ended(batch.slot)
        if group.closing:
            self._finish(group)
        elif batch.void:
            group.slab.shrink()
            self.fill(group)
        elif batch.missing == 0:
            group.slots.complete(batch.slot)
            self.deliver(batch)
        elif batch.failure is not None:
            self.deliver(batch)

    def deliver(self, batch: BatchState) -> None:
        """Announce what a batch allows that is complete or has failed, to all that wait for it."""
        waiting = set(map(id, batch.runs))
        for member in list(batch.group.members.values()):
            if id(member.run) in waiting:
                self._deliver(batch.group, member)

    def _deliver(self, group: Group, member: Member) -> None:
        """Announce complete batches whose turn it is; a failed one in its turn ends the run."""
        run = member.run
        if run is None:
            return
        pending, records = run.pending, []
        while pending and pending[0].missing == 0 and run.credits:
            records.append(self._announce(group, member, run, pending.popleft()))
        if records:
            self._context.counts.batches += len(records)
            member.tally.announced += len(records)
            member.tally.end_wait(self._context.now)
            self._context.send(member.token, *records)
        first = pending[0] if pending and run.credits else None
        if first is not None and first.failure is not None and first.settled:
            self._end_run(group, member, first.failure)

    def reclaim(self, batch: BatchState, ranges: list[Range]) -> int:
        """Make the rows of a claim unclaimed again if they are still wanted; return how many."""
        if batch.void:
            return 0
        had = batch.unclaimed
        batch.put_back(ranges)
        if batch.unclaimed and not had:
            insort(batch.group.open, batch, key=_serial)
            self._queue(batch.group)
        return batch.unclaimed - had

    def fail(self, batch: BatchState, lo: int, fault: Fault) -> None:
        """Record that the claim starting at row `lo` failed; the run ends with that batch.

        Must be called before the claim has ended.
        """
        if batch.void:
            return
        batch.fail(lo, fault)
        batch.group.unlist(batch)
        for run in list(batch.runs):
            run.ending = True
            self._void(batch.group, run, run.pending.index(batch) + 1)
        self.freed(batch.group)

    def end_run(self, group: Group, token: bytes, fault: Fault) -> None:
        """End a member's run at once, with an error to its session."""
        member = group.members[token]
        if member.run is not None and not member.run.ended:
            self._end_run(group, member, fault)

    def end_runs(self, group: Group, fault: Fault) -> None:
        """End all runs of a group at once, with an error to its sessions."""
        for token in list(group.members):
            self.end_run(group, token, fault)

    def stop_stream(self, stream: Stream, error: StokerError) -> None:
        """Stop a stream for good: all its groups get the error, now and at each later SEEK."""
        for group in self.by_number.values():
            if group.stream is stream and group.stopped is None:
                group.stopped = error
                self.end_runs(group, error.to_record())

    def rewind(self, stream: Stream, place: tuple[int, int]) -> None:
        """Begin again at a place, because the stream's rows differ from there on.

        Announced batches stay valid: they hold only rows that could be computed.
        """
        for group in self.by_number.values():
            if group.stream is not stream:
                continue
            for run in group.runs:
                later = [batch for batch in run.pending if batch.place >= place]
                if run.ended or not later:
                    continue
                self._void(group, run, len(run.pending) - len(later))
                run.epoch, run.step = later[0].place
                run.ending = False  # the batch that failed was the last one begun
            self.fill(group)

    def move(self, batch: BatchState) -> BatchState | None:
        """Begin a batch again in the spare slot: a writer of its slot cannot be confirmed dead.

        Returns:
            The batch that replaces it, to be filled; or None: it was void, or its first claim had
            failed, or no spare is left and the run has ended with an error.
        """
        group, runs = batch.group, list(batch.runs)
        if batch.slot.state is SlotState.RETIRED:  # two of its writers cannot be confirmed dead
            return None
        self._context.counts.retired_slots += 1
        replaced, wanted = group.slots.retire(batch.slot), not batch.void
        unclaimed = batch.unclaimed
        batch.drop()
        group.forget(batch)
        self._reopen(group)
        if not replaced:
            for run in runs:
                run.pending.remove(batch)
                sharing.leave(run, batch)
            group.stopped = group.stopped or _spare_used(group)
            self.end_runs(group, group.stopped.to_record())
            return None
        if not wanted:
            sharing.withdraw(self._context.counts, group, 0)  # the spare may be owed
            self.fill(group)
            return None
        slot = group.slots.take()
        assert slot is not None  # the spare
        fresh = group.begin(batch.place, batch.crashed, slot)
        fresh.serial = batch.serial
        group.open.sort(key=_serial)
        fresh.runs, batch.runs = runs, []
        for run in runs:
            run.pending[run.pending.index(batch)] = fresh
        if batch.failure is not None:
            fresh.fail(batch.failed_lo, batch.failure)  # the rows below it may fail as well
            group.unlist(fresh)
        self._context.counts.recomputed_rows += fresh.unclaimed - unclaimed
        self.deliver(fresh)
        self._reopen(group)
        return fresh if fresh.unclaimed else None

    def close(self, group: Group, token: bytes, *, reads_on: bool = False) -> None:
        """Remove a session; the group ends with the last one, once its claims have ended.

        Args:
            group: its group.
            token: its token.
            reads_on: whether its client may still read the slots that it holds; then they are not
                used again before it is gone, too.
        """
        member = group.members.pop(token, None)
        if member is None or group.closing:
            return
        if member.run is not None:
            member.run.ended = True
            self._void(group, member.run, 0)
        if group.members:
            sharing.depart(self._context.counts, self._budget, group, member, reads_on=reads_on)
            self.fill(group)
            return
        group.slab.closing = True
        self._finish(group)

    def freed(self, group: Group) -> None:
        """Continue after slots may have become free."""
        group.slab.shrink()
        if group.starved:
            self.fill(group)

    def reserved(self, group: Group) -> bool:
        """Note that the slab is reserved; False if it is no longer wanted."""
        group.slab.reserved = True
        group.slab.shrink()
        self._finish(group)
        return not group.closing

    def grown(self, group: Group) -> bytes:
        """Let a member use slots whose memory is there now; return its token, or b"" for none.

        They go again if it has left.
        """
        growth = group.slab.end_growth()
        if growth is None:
            return b""
        member = group.members.get(growth.token)
        if member is None:
            sharing.withdraw(self._context.counts, group, len(growth.slots))
        else:
            member.quota += len(growth.slots)
        self.freed(group)
        if member is not None:
            self.fill_run(group, member)
        return growth.token

    def free_departed(self, token: bytes) -> None:
        """Free the slots that an ended session's client could still read, because it is gone."""
        for group in self.by_number.values():
            if token in group.departed and not group.closing:
                sharing.free_departed(self._context.counts, group, token)
                self.freed(group)

    def remove(self, group: Group) -> None:
        """Remove a group whose slab was refused, or is free."""
        group.slab.closing = True
        del self.by_number[group.number]
        group.cohort.groups.remove(group)
        forks.give_back(group.cohort, self._budget)
        self._streams.leave(group.stream)
        for _ in list(group.members)[1:]:  # that waited for memory which was refused
            self._budget.give(0, group.stream.build)
        self._budget.give(group.slab.used_bytes, group.stream.build)

    def _announce(self, group: Group, member: Member, run: Run, batch: BatchState) -> Ready:
        run.credits -= 1
        slot = batch.slot
        assert batch.outputs is not None  # its rows are written
        sharing.leave(run, batch)
        self._context.counts.shared_batches += bool(batch.had)
        batch.had.add(member.token)
        member.held += 1
        group.slots.lease(slot, member.token)
        if group.record.rank == 0 and batch.step + 1 == group.steps.count(batch.epoch):
            self._context.counts.add_epoch(group.steps.account(batch.epoch))
        if group.record.verify:
            digest = batch_of_rows(batch.digests)
            run.chain = chain_on(run.chain, batch.epoch, batch.step, digest)
        return Ready(
            run.number, group.stream.stream_id, batch.epoch, batch.step, group.slab.number,
            slot.index, slot.generation, batch.cut.rows, batch.outputs, list(batch.crashed),
            bytes(batch.digests), run.chain,
        )  # fmt: skip

    def _end_run(self, group: Group, member: Member, fault: Fault) -> None:
        run = member.run
        assert run is not None  # its caller knows it
        run.ended = True
        member.tally.end_wait(self._context.now)
        self._void(group, run, 0)
        self._context.counts.errors += 1
        self._context.send(member.token, error_record(*fault, run=run.number))
        self.freed(group)

    def _void(self, group: Group, run: Run, kept: int) -> None:
        """Drop the run's pending batches, except for the first ones."""
        sharing.drop(group, run, kept)
        self._reopen(group)

    def _reopen(self, group: Group) -> None:
        group.open = [batch for batch in group.open if batch.unclaimed]
        self._queue(group)

    def _queue(self, group: Group) -> None:
        if group.open and not group.in_rotation:
            group.in_rotation = True
            self.rotation.append(group)

    def _finish(self, group: Group) -> None:
        if not group.closing or group.claims or not group.slab.reserved:
            return
        for worker in group.workers:
            self._context.out.append(ForgetStream(worker, group.number, group.slab.number))
        self._context.out.append(FreeSlab(group.slab.number))
        self.remove(group)


def _wrong_step(record: Seek, steps: int) -> UsageError:
    """Return the error of a SEEK to a step that an epoch of this many steps does not have."""
    return UsageError(
        f"SEEK: expected a step from 0 to {steps}, the number of steps of an epoch,"
        f" got {record.step}",
        epoch=record.epoch,
        step=record.step,
    )


def _spare_used(group: Group) -> ResourceError:
    """Return the error of a group that has no spare slot left."""
    return ResourceError(
        f"slab {group.slab.number}: two workers that were killed cannot be confirmed dead, and"
        " there is only one spare slot; open a new session, and check what blocks the workers"
        " (state D in ps: usually a network file system)",
        slab=group.slab.number,
    )
