"""Delivery to groups: seek, take credits, begin steps, announce in order, fail, close.

A run begins its next steps while slots are free and fewer batches are pending than the client has
granted credits; brief batches may run `AHEAD_OF_CREDITS` further ahead, so that workers continue
while READY travels to the client and its credit travels back:

    len(pending) <= credits + AHEAD_OF_CREDITS.

A complete batch waits until all earlier batches of the run are announced. Announcing costs one
credit and leases the slot to the session. A new SEEK voids batches that are not announced;
announced batches stay leased until their RELEASE. A batch that fails ends the run in its turn: the
batches before it are delivered first, then the error.
"""

from bisect import insort
from collections import deque
from operator import attrgetter

from stoker.protocol.chain import batch_of_rows, chain_on, chain_start
from stoker.protocol.cursor import MAX_CRASHED
from stoker.protocol.errors import ProtocolError, ResourceError, StokerError, UsageError
from stoker.protocol.messages import Credit, Error, Ready, Release, Seek
from stoker.server.state.budget import Budget
from stoker.server.state.context import Context, Fault, error_record
from stoker.server.state.groups import BatchState, Group, Range, Run
from stoker.server.state.instructions import ForgetStream, FreeSlab
from stoker.server.state.slots import SlotState
from stoker.server.state.streams import Stream, Streams

MAX_CREDITS = 2**48
AHEAD = 64
AHEAD_OF_CREDITS = 8
_serial = attrgetter("serial")


class Deliveries:
    """All groups, and the rotation of those with unclaimed rows."""

    def __init__(self, context: Context, streams: Streams, budget: Budget) -> None:
        self._context = context
        self._streams = streams
        self._budget = budget
        self.by_number: dict[int, Group] = {}
        self.by_slab: dict[int, Group] = {}
        self.rotation: deque[Group] = deque()

    def add(self, group: Group) -> None:
        """Add a new group, whose slab is being reserved."""
        self.by_number[group.number] = self.by_slab[group.slab] = group

    def seek(self, group: Group, record: Seek) -> None:
        """Begin a run.

        Raises:
            ProtocolError: the run's number does not increase; nothing changes.
            UsageError: the epoch has no such step, and the run delivers nothing; or there are too
                many crashed samples, or one is not in the dataset, and nothing changes.
            StokerError: the stream has stopped; the run delivers nothing.
        """
        before = group.run
        if before is not None and record.run <= before.number:
            raise ProtocolError(
                f"SEEK: expected a run above {before.number}, got {record.run}; runs must increase"
            )
        _check_crashed(record.crashed, group.stream)
        if before is not None:
            self._void(group, before, 0)
        group.run = run = Run(record.run, record.epoch, record.step, record.crashed)
        if group.record.verify:
            run.chain = chain_start(group.stream.stream_id, run.epoch, run.step)
        steps = group.course.steps(run.epoch)
        if run.step == steps:
            run.epoch, run.step = run.epoch + 1, 0
        run.ended = run.step > steps or group.stopped is not None
        if group.stopped is not None:
            raise group.stopped
        if run.ended:
            raise UsageError(
                f"SEEK: expected a step from 0 to {steps}, the number of steps of an epoch,"
                f" got {record.step}",
                epoch=record.epoch,
                step=record.step,
            )

    def credit(self, group: Group, record: Credit) -> None:
        """Add credits to the run; credits for another run are void."""
        run = group.run
        if run is not None and run.number == record.run:
            run.credits = min(run.credits + record.batches, MAX_CREDITS)
            self.deliver(group)

    def release(self, group: Group, token: bytes, record: Release) -> None:
        """Release slots; stale pairs are counted and ignored."""
        for index, generation in record.slots:
            if not group.slots.release(index, generation, token):
                self._context.counts.stale_releases += 1

    def fill(self, group: Group) -> None:
        """Begin the next steps of the run, as far as credits and free slots allow.

        At most `AHEAD` of them have unclaimed rows at a time, however many credits a client grants,
        so one event never begins more. The scheduler calls again when all are claimed.
        """
        run = group.run
        if run is None or run.ended or run.ending:
            return
        granted = run.credits or run.begun
        brief = bool(granted) and group.stream.is_brief(group.course.largest.rows)
        pending, limit = run.pending, run.credits + AHEAD_OF_CREDITS * brief
        while len(pending) < limit and len(group.open) < AHEAD:
            slot = group.slots.take()
            if slot is None:
                break
            batch = BatchState(group, run.begun, run.epoch, run.step, slot)
            run.begun += 1
            run.step += 1
            if run.step == group.course.steps(run.epoch):
                run.epoch, run.step = run.epoch + 1, 0
            pending.append(batch)
            group.open.append(batch)
        self._queue(group)

    def claim_ended(self, batch: BatchState) -> None:
        """Continue with slot, batch and group after a claim has ended, successfully or not."""
        group = batch.group
        group.claims -= 1
        group.slots.writer_ended(batch.slot)
        if group.closing:
            self._finish(group)
        elif batch.void:
            self.fill(group)
        elif batch.missing == 0:
            group.slots.complete(batch.slot)
            self.deliver(group)
        elif batch.failure is not None:
            self.deliver(group)

    def deliver(self, group: Group) -> None:
        """Announce complete batches whose turn it is; a failed one in its turn ends the run."""
        run = group.run
        if run is None:
            return
        pending, records = run.pending, []
        while pending and pending[0].missing == 0 and run.credits:
            records.append(self._announce(group, run, pending.popleft()))
        if records:
            self._context.counts.batches += len(records)
            for token in group.members:
                self._context.send(token, *records)
        first = pending[0] if pending and run.credits else None
        if first is not None and first.failure is not None and first.settled:
            self._end_run(group, run, first.failure)

    def put_back(self, batch: BatchState, ranges: list[Range]) -> None:
        """Make the rows of a lost claim unclaimed again."""
        self._context.counts.recomputed_rows += self.reclaim(batch, ranges)

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
        run = batch.group.run
        if batch.void or run is None:
            return
        batch.fail(lo, error_record(*fault, run=run.number))
        run.ending = True
        self._void(batch.group, run, batch.serial + 1)

    def end_run(self, group: Group, fault: Fault) -> None:
        """End the group's run at once, with an error to its sessions."""
        if group.run is not None and not group.run.ended:
            self._end_run(group, group.run, error_record(*fault, run=group.run.number))

    def stop_stream(self, stream: Stream, error: StokerError) -> None:
        """Stop a stream for good: all its groups get the error, now and at each later SEEK."""
        for group in self.by_number.values():
            if group.stream is stream and group.stopped is None:
                group.stopped = error
                self.end_run(group, error.to_record())

    def rewind(self, stream: Stream, place: tuple[int, int]) -> None:
        """Begin again at a place, because the stream's rows differ from there on.

        Announced batches stay valid: they hold only rows that could be computed.
        """
        for group in self.by_number.values():
            run = group.run
            if group.stream is not stream or run is None or run.ended:
                continue
            later = [batch for batch in run.pending if (batch.epoch, batch.step) >= place]
            if later:
                self._void(group, run, later[0].serial)
                run.epoch, run.step = later[0].epoch, later[0].step
                run.ending = False  # the batch that failed was the last one begun
                self.fill(group)

    def move(self, batch: BatchState) -> BatchState | None:
        """Begin a batch again in the spare slot: a writer of its slot cannot be confirmed dead.

        Returns:
            The batch that replaces it, to be filled; or None: it was void or had failed, or no
            spare is left and the run has ended with an error.
        """
        group, run = batch.group, batch.group.run
        if batch.slot.state is SlotState.RETIRED:  # two of its writers cannot be confirmed dead
            return None
        self._context.counts.retired_slots += 1
        replaced, wanted = group.slots.retire(batch.slot), not batch.void
        self._context.counts.recomputed_rows += (
            0 if batch.void else batch.cut.rows - batch.unclaimed
        )
        batch.drop()
        if run is None or not wanted:
            if replaced:
                self.fill(group)
            else:
                self._no_spare(group)
            return None
        place = run.pending.index(batch)
        if not replaced:
            del run.pending[place]
            self._no_spare(group)
            return None
        slot = group.slots.take()
        assert slot is not None  # the spare
        fresh = run.pending[place] = BatchState(group, batch.serial, batch.epoch, batch.step, slot)
        if batch.failure is not None:
            fresh.fail(batch.cut.first_row, batch.failure)
            self.deliver(group)
        self._reopen(group)
        return fresh if fresh.failure is None else None

    def close(self, group: Group, token: bytes) -> None:
        """Remove a session; the group ends with the last one, once its claims have ended."""
        group.members.pop(token, None)
        if group.members or group.closing:
            return
        group.closing = True
        if group.run is not None:
            self._void(group, group.run, 0)
            group.run.ended = True
        self._finish(group)

    def reserved(self, group: Group) -> bool:
        """Note that the slab is reserved; False if it is no longer wanted."""
        group.reserved = True
        self._finish(group)
        return not group.closing

    def refused(self, group: Group) -> None:
        """Remove a group whose slab was refused."""
        self._remove(group)

    def _no_spare(self, group: Group) -> None:
        group.stopped = group.stopped or ResourceError(
            f"slab {group.slab}: two workers that were killed cannot be confirmed dead, and there"
            " is only one spare slot; open a new session, and check what blocks the workers"
            " (state D in ps: usually a network file system)",
            slab=group.slab,
        )
        self.end_run(group, group.stopped.to_record())

    def _announce(self, group: Group, run: Run, batch: BatchState) -> Ready:
        run.credits -= 1
        slot = batch.slot
        assert batch.outputs is not None  # its rows are written
        for token in group.members:
            group.slots.lease(slot, token)
        if group.record.rank == 0 and batch.step + 1 == group.course.steps(batch.epoch):
            self._count_epoch(group, batch.epoch)
        if group.record.verify:
            digest = batch_of_rows(batch.digests)
            run.chain = chain_on(run.chain, batch.epoch, batch.step, digest)
        return Ready(
            run.number, group.stream.stream_id, batch.epoch, batch.step, group.slab, slot.index,
            slot.generation, batch.cut.rows, batch.outputs, list(batch.crashed),
            bytes(batch.digests), run.chain,
        )  # fmt: skip

    def _count_epoch(self, group: Group, epoch: int) -> None:
        """Count an epoch whose last batch is announced, over all ranks."""
        counts, account = self._context.counts, group.course.account(epoch)
        counts.epochs += 1
        if account is not None:
            counts.carried_samples += account.carried_out
            counts.dropped_samples += account.dropped
            counts.padded_positions += account.padded

    def _end_run(self, group: Group, run: Run, record: Error) -> None:
        self._void(group, run, 0)
        run.ended = True
        self._context.counts.errors += 1
        for token in group.members:
            self._context.send(token, record)

    def _void(self, group: Group, run: Run, serial: int) -> None:
        """Drop the run's batches from that serial on."""
        pending = run.pending
        while pending and pending[-1].serial >= serial:
            batch = pending.pop()
            batch.drop()
            group.slots.void(batch.slot)
        self._reopen(group)

    def _reopen(self, group: Group) -> None:
        run = group.run
        group.open = [batch for batch in run.pending if batch.unclaimed] if run else []
        self._queue(group)

    def _queue(self, group: Group) -> None:
        if group.open and not group.queued:
            group.queued = True
            self.rotation.append(group)

    def _finish(self, group: Group) -> None:
        if not group.closing or group.claims or not group.reserved:
            return
        for worker in group.told:
            self._context.out.append(ForgetStream(worker, group.number, group.slab))
        self._context.out.append(FreeSlab(group.slab))
        self._remove(group)

    def _remove(self, group: Group) -> None:
        del self.by_number[group.number]
        del self.by_slab[group.slab]
        self._streams.leave(group.stream)
        self._budget.give(group.slab_bytes, group.stream.build)


def _check_crashed(crashed: list[int], stream: Stream) -> None:
    rows = stream.spec.dataset_rows
    if any(number >= rows for number in crashed):
        raise UsageError(f"SEEK: crashed: expected ids from 0 to {rows - 1}, got {crashed}")
    if len(stream.crashed.keys() | crashed) > MAX_CRASHED:
        raise UsageError(
            f"SEEK: crashed: at most {MAX_CRASHED} samples of a stream can be replaced, this would "
            f"be {len(stream.crashed.keys() | crashed)}: leave them out with an exclude list"
        )
