"""Opening a stream: names, build, StreamSpec, memory, slab, in that order; each step may fail.

OPEN -> (StartBuild -> Built) -> ReserveSlab -> SlabReserved -> SendSlab, OPENED. A session that
joins a group (`group_joining`) has GrowSlab in place of ReserveSlab; GrowSlab also follows OPENED,
for slots that it does not need at once. A failure is ERROR with the number of the request; the
session may then OPEN again; one that GrowSlab fails after OPENED ends. If one goes away in between,
nothing is left behind: its build is ended unless others wait for it, its slab is freed once it is
reserved. While a build lasts, BUILDING goes to the sessions that asked for it.
"""

from typing import Final

from stoker.protocol.draw_records import check_sendable
from stoker.protocol.errors import ResourceError, StokerError
from stoker.protocol.exclude import Excluded
from stoker.protocol.messages import Building, Open, Opened
from stoker.protocol.slot_layout import check_outputs
from stoker.protocol.spec import StreamSpec
from stoker.server.state.budget import REMEDY, Budget
from stoker.server.state.builds import Builds
from stoker.server.state.clients import harmless
from stoker.server.state.core_context import CoreContext, Fault, error_record
from stoker.server.state.core_instructions import ReserveSlab, SendSlab
from stoker.server.state.events import BuildDied, BuildFailed
from stoker.server.state.groups import forks, group_joining
from stoker.server.state.groups.group import Cohort, Group, Member
from stoker.server.state.groups.group_delivery import AHEAD_OF_CREDITS, Deliveries
from stoker.server.state.groups.group_joining import SPARE
from stoker.server.state.groups.group_slab import GroupSlab
from stoker.server.state.jobs import Jobs
from stoker.server.state.names import dataset_name, pipeline_name, resolve_names
from stoker.server.state.prefetch import chosen_prefetch
from stoker.server.state.rank_steps import RankSteps
from stoker.server.state.served_streams import (
    Streams,
    check_request,
    compose,
    served_stream,
    steps_of_rank,
)
from stoker.server.state.session_state import PendingOpen, Session
from stoker.server.state.stage_sums import served_names
from stoker.server.work.cuts import batch_outputs
from stoker.server.work.work_records import BuildResult, OpenStream

PROGRESS_S: Final = 0.5
"""A session gets at most one BUILDING in this time, and the first one not sooner."""


class Openings:
    """The pending OPENs."""

    def __init__(
        self,
        context: CoreContext,
        builds: Builds,
        streams: Streams,
        groups: Deliveries,
        budget: Budget,
    ) -> None:
        self._context = context
        self._builds = builds
        self._streams = streams
        self._groups = groups
        self._budget = budget
        self._numbers = 0
        self._waiting: dict[bytes, Session] = {}
        self._reserving: dict[int, Session] = {}
        self._joining: dict[bytes, Session] = {}
        self._jobs = Jobs()

    def begin(self, session: Session, request: Open) -> None:
        """Start to open a stream for a session.

        Raises:
            UsageError: the request is impossible.
            ResourceError: there is not enough memory.
        """
        settings = self._context.settings
        session.dataset = harmless(dataset_name(request.stream, settings.datasets))
        session.pipeline = harmless(pipeline_name(request.stream))
        session.epochs = request.stream.draws.total_epochs or 0
        share = check_request(request)
        excluded = [Excluded.from_bytes(one.selection.exclude) for one in request.stream.sources]
        stream = resolve_names(request.stream, settings.datasets, settings.pipelines)
        opening = PendingOpen(
            request, stream, stream.digest, share, excluded[0], sent_at=self._context.now
        )
        self._builds.ask(opening.key, stream, session.token, session.process)
        self._waiting[session.token] = session
        session.opening = opening

    def leave(self, session: Session) -> None:
        """Drop the pending OPEN of a session that goes away, and its part in a job."""
        self._jobs.leave(session.token)
        opening, session.opening = session.opening, None
        if opening is None:
            return
        if opening.group is None:
            self._waiting.pop(session.token, None)
            self._builds.leave(opening.key, session.token)
        else:
            self._joining.pop(session.token, None)
            self._groups.close(opening.group, session.token)

    def tick(self) -> None:
        """Send BUILDING to sessions that asked for it, if there is something new."""
        now = self._context.now
        for group in self._groups.by_number.values():
            self.check_gate(group)
        for session in self._waiting.values():
            opening = session.opening
            if (
                opening is None
                or not opening.request.delivery.progress
                or now - opening.sent_at < PROGRESS_S
            ):
                continue
            functions = self._builds.functions(opening.key)
            if functions != opening.sent:
                opening.sent, opening.sent_at = functions, now
                self._context.send(session.token, Building(opening.request.request, *functions))

    def check_gate(self, group: Group) -> None:
        """Let a group begin whose members are there, or have been waited for long enough."""
        cohort, wait_s = group.cohort, self._context.settings.group_wait_s
        facts = {"group": group.name, "members": cohort.seekers, "expected": cohort.size}
        waited = cohort.since is not None
        if cohort.begins(self._context.now, wait_s):
            if cohort.seekers < cohort.size and cohort.waits:
                self._context.log("warning", "group_begins_without_all", **facts)
            for one in group.together:
                self._groups.fill(one)
        elif cohort.since is not None and not waited:
            self._context.log("info", "group_waits", **facts, at_most_s=wait_s)

    def built(self, result: BuildResult) -> None:
        """Continue all OPENs that waited for a build that succeeded."""
        for token in self._builds.done(result):
            session = self._waiting.pop(token)
            assert session.opening is not None  # it waits
            try:
                self._reserve(session, session.opening, result)
            except StokerError as error:
                self._refuse(session, error.to_record())

    def build_failed(self, event: BuildFailed) -> None:
        """Send the error of a failed build to all sessions that waited for it."""
        for token in self._builds.failed(event.build):
            self._refuse(self._waiting.pop(token), (event.code, event.message, event.details))

    def build_died(self, event: BuildDied) -> None:
        """Send an error to the sessions that wait for a build whose process is killed each time."""
        failed = self._builds.died(event.build, event.reason)
        if failed is not None:
            waiters, error = failed
            for token in waiters:
                self._refuse(self._waiting.pop(token), error.to_record())

    def reserved(self, slab: int) -> None:
        """Complete the OPEN whose slab is reserved."""
        session = self._reserving.pop(slab, None)
        group = self._groups.by_number.get(slab)
        if group is None:
            return
        if group.slab.reserved:
            session = self._joining.pop(self._groups.grown(group), None)
        elif not self._groups.reserved(group):
            return
        if session is not None and session.opening is not None and session.opening.group is group:
            self._opened(session, session.opening, group)
        group.slab.begin_growth(group.members)

    def _opened(self, session: Session, opening: PendingOpen, group: Group) -> None:
        """Answer an OPEN whose slots have their memory."""
        session.opening, session.group = None, group
        slots = opening.slots
        steps, spec, slab = group.steps, group.stream.spec, group.slab
        build, params = group.stream.build, group.record.params
        self._context.out.append(
            SendSlab(
                session.token, slab.number, slab.capacity, slab.slot_bytes,
                writable=not group.is_mirror,
            )
        )  # fmt: skip
        self._context.send(
            session.token,
            Opened(
                request=opening.request.request,
                spec=spec.to_data(),
                stream=group.stream.stream_id,
                steps=steps.count(0),
                rows=steps.largest.rows,
                first_row=steps.largest.first_row,
                slab=slab.number,
                slots=slots,
                slot_bytes=slab.slot_bytes,
                outputs=list(batch_outputs(spec, build.outputs, build.params_bytes * params)),
                drawn=list(build.drawn) if params else [],
                buckets=list(steps.buckets),
                leftovers=build.leftovers,
                merged=build.merged,
                notes=self._notes(),
                classes={name: list(names) for name, names in build.classes.items()},
                prefetch=opening.prefetch,
                mix=[(part.name, part.rows) for part in build.parts],
                crash_policy=self._context.settings.crash_policy,
                integrity=self._context.settings.integrity,
            ),
        )
        self._context.log(
            "info", "opened", **session.facts(),
            pipeline=session.pipeline,
            stream_id=group.stream.stream_id,
            slab=slab.number, slab_bytes=slots * slab.slot_bytes,
            group=group.name or None, members=len(group.members),
            rank=opening.request.rank, world_size=opening.request.world_size,
        )  # fmt: skip

    def _notes(self) -> list[str]:
        reason = self._context.unstored
        if not reason:
            return []
        return [f"{reason}: kernels are compiled again by each process, which costs time only"]

    def refused(self, slab: int, reason: str) -> bytes:
        """Fail the OPEN whose memory the kernel refused.

        Returns:
            The session that is open and does not get all its memory; empty without such a session.
        """
        session = self._reserving.pop(slab, None)
        group = self._groups.by_number.get(slab)
        ended = b""
        if group is None:
            return ended
        if not group.slab.reserved:
            self._groups.remove(group)
            self._refuse_memory(session, group, len(group.slots.slots), reason)
            self._found_again(group)
        elif (growth := group.slab.growing) is not None:
            group.slab.fail_growth(growth)
            if not growth.opens and growth.token in group.members:
                error = _refused_memory(group, len(growth.slots), reason)
                self._context.send_error(growth.token, error)
                ended = growth.token
            else:
                self._groups.close(group, growth.token)
                waiting = self._joining.pop(growth.token, None)
                self._refuse_memory(waiting, group, len(growth.slots), reason)
            group.slab.begin_growth(group.members)
        return ended

    def _refuse_memory(
        self, session: Session | None, group: Group, slots: int, reason: str
    ) -> None:
        if session is None or session.opening is None or session.opening.group is not group:
            return
        self._refuse(session, _refused_memory(group, slots, reason).to_record())

    def _found_again(self, group: Group) -> None:
        """Reserve memory for the sessions that were to join a group whose slab was refused."""
        for growth in group.slab.waiting:
            session = self._joining.pop(growth.token, None)
            if session is None or session.opening is None:
                continue
            session.opening.group = None
            try:
                self._reserve(session, session.opening, group.stream.build)
            except StokerError as error:
                self._refuse(session, error.to_record())

    def _reserve(self, session: Session, opening: PendingOpen, result: BuildResult) -> None:
        """Compose the stream and reserve its memory."""
        request, params = opening.request, opening.request.stream.params
        if params:
            check_sendable(result.drawn, result.params_bytes)
        spec = compose(request.stream, result, opening.excluded)
        params_bytes = result.params_bytes if params else 0
        check_outputs(batch_outputs(spec, result.outputs, params_bytes))
        self._jobs.check(request, spec)
        steps = steps_of_rank(opening.share, spec, result, request)
        slot_bytes = steps.largest.layout.slot_bytes
        mate = group_joining.find_mate(request, spec, result, self._groups.by_number.values())
        opening.prefetch = chosen_prefetch(
            request.delivery, steps.largest, result, self._budget, self._context.settings.workers
        )
        opening.slots = opening.prefetch + request.delivery.leases + SPARE
        opening.slots += self._ahead(opening.slots, slot_bytes, result)
        opening.first = group_joining.first_slots(
            self._context.settings, request, opening.slots, slot_bytes
        )
        if mate is None or mate.record.fork:
            group = self._found(session, opening, result, spec, steps, mate)
        else:
            group, first, slots = mate, opening.first - SPARE, opening.slots - SPARE
            group_joining.join(group, session.token, first, slots, result)
            self._joining[session.token] = session
            group.slab.begin_growth(group.members)
        opening.group = group
        self._jobs.join(session.token, request, spec)
        asked = request.delivery.group
        if asked is not None and asked.begun:
            group.cohort.waits = False

    def _found(
        self,
        session: Session,
        opening: PendingOpen,
        result: BuildResult,
        spec: StreamSpec,
        steps: RankSteps,
        mate: Group | None,
    ) -> Group:
        """Found a group, which the session is the first member of, and reserve its slab.

        Args:
            session: the session.
            opening: its OPEN.
            result: the build.
            spec: the stream.
            steps: of its rank.
            mate: the group of another member of the fork that it joins.
        """
        request, layout = opening.request, steps.largest.layout
        self._numbers += 1
        asked, cohort = request.delivery.group, None if mate is None else mate.cohort
        is_fork = asked is not None and asked.mode == "fork"
        if cohort is None:
            cohort = Cohort(self._numbers * is_fork, 0 if asked is None else asked.size)
        if asked is not None and is_fork:
            forks.make_room(cohort, asked, result, self._budget)
        try:
            self._budget.take(opening.slots, layout.slot_bytes, result)
        except ResourceError:
            forks.give_back(cohort, self._budget)
            raise
        record = OpenStream(
            self._numbers, served_stream(request.stream, spec, result), layout,
            steps.largest.first_row, bool(request.stream.params and result.params_bytes),
            request.rank, request.world_size, request.delivery.verify,
            cohort.number, cohort.size_bytes,
        )  # fmt: skip
        slab = GroupSlab(
            self._context, self._budget, self._numbers, opening.first, layout.slot_bytes,
            group_joining.capacity_of(request, opening.slots, layout.slot_bytes),
        )  # fmt: skip
        served = served_names(request.stream, self._context.settings.datasets)
        group = Group(self._streams.join(spec, result), record, steps, slab, cohort, asked, served)
        group.members[session.token] = Member(session.token, opening.first - SPARE)
        self._groups.by_number[group.number] = group
        self._reserving[slab.number] = session
        first_bytes = slab.used_bytes
        slab.follow(session.token, opening.slots - opening.first)
        self._context.out.append(
            ReserveSlab(slab.number, first_bytes, slab.size_bytes, needed_bytes=slab.used_bytes)
        )
        return group

    def _ahead(self, slots: int, slot_bytes: int, build: BuildResult) -> int:
        """Return the extra slots of a stream for brief batches; 0 if large or without room."""
        small = slot_bytes <= self._context.settings.ahead_slot_bytes
        has = self._budget.has(slots + AHEAD_OF_CREDITS, slot_bytes, build)
        return AHEAD_OF_CREDITS * (small and has)

    def _refuse(self, session: Session, fault: Fault) -> None:
        self._jobs.leave(session.token)
        opening, session.opening = session.opening, None
        if opening is not None:
            self._context.counts.errors += 1
            self._context.send(session.token, error_record(*fault, request=opening.request.request))
            self._context.log_refusal(
                "request_refused", fault, **session.facts(), request="OPEN",
                pipeline=session.pipeline,
            )  # fmt: skip


def _refused_memory(group: Group, slots: int, reason: str) -> ResourceError:
    size_bytes = slots * group.slab.slot_bytes
    return ResourceError(
        f"not enough memory: the kernel refused {size_bytes} bytes for {slots} slots: {reason}; "
        + REMEDY,
        needed_bytes=size_bytes,
    )
