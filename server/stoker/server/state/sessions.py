"""Sessions: HELLO, lifeline, and the records that follow, in the order that the protocol allows.

greeted -> attached -> opening -> open -> gone. A session whose lifeline does not come up in time is
ended, so every token ends. At the limit of sessions a new one replaces a session without a
lifeline: the oldest one of the process that has most such sessions. After an ERROR that answers
OPEN a session may OPEN again; an open one may not. A record out of order is answered by ERROR
`protocol` and has no other effect. The cost of one message is bounded: one STATUS, as many releases
as there are slots, and `MAX_FAULTS` errors; a session that causes more errors is ended.
"""

from collections import Counter
from collections.abc import Callable
from itertools import islice

from stoker.protocol import version
from stoker.protocol.errors import (
    AccessError,
    ConnectError,
    ProtocolError,
    StokerError,
    TryAgainError,
    UsageError,
    VersionError,
)
from stoker.protocol.messages import (
    MAX_LISTED,
    AskReplay,
    AskStatus,
    Bye,
    ClientRecord,
    Close,
    Credit,
    Hello,
    Open,
    Release,
    Seek,
    SessionStatus,
    SetWorkers,
    Status,
    Welcome,
)
from stoker.server.state.clients import claimed
from stoker.server.state.core_context import CoreContext, error_record
from stoker.server.state.core_instructions import EndSession, SendPeer
from stoker.server.state.events import Greeted, Received
from stoker.server.state.groups.group import Group
from stoker.server.state.groups.group_delivery import Deliveries
from stoker.server.state.names import pipeline_name
from stoker.server.state.replays import Replays
from stoker.server.state.session_state import Session
from stoker.server.state.session_status import session_status
from stoker.server.state.stream_opening import Openings
from stoker.server.state.worker_faults import broken
from stoker.server.state.workers import Pool

MAX_FAULTS = 16
DAEMON = f"stoker {version.STOKER}"


class Sessions:
    """All sessions, by token."""

    def __init__(
        self,
        context: CoreContext,
        openings: Openings,
        groups: Deliveries,
        pool: Pool,
        replays: Replays,
        status: Callable[[], dict[str, int | float]],
    ) -> None:
        self._context = context
        self._openings = openings
        self._groups = groups
        self._pool = pool
        self._replays = replays
        self._status = status
        self._unattached: dict[bytes, Session] = {}
        self.by_token: dict[bytes, Session] = {}
        self._pairs = 0
        self._told = False
        self.attached_once = False
        self.closed = False

    def greeted(self, event: Greeted) -> None:
        """Answer HELLO with a token or an error."""
        client = event.client or claimed(event.hello)
        try:
            self._check_hello(event.hello)
        except StokerError as error:
            self._context.counts.errors += 1
            record = error_record(*error.to_record())
            self._context.out.append(SendPeer(event.peer, (record,)))
            facts = {**client.facts(), "release": client.release}
            self._context.log_refusal("client_refused", error.to_record(), **facts)
            return
        self._context.counts.sessions += 1
        number = self._context.counts.sessions
        session = Session(event.token, event.now, client, event.process, number=number)
        self.by_token[event.token] = self._unattached[event.token] = session
        welcome = Welcome(version.WIRE, event.token, DAEMON)
        certificate = event.hello.certificate
        self._context.out.append(SendPeer(event.peer, (welcome,), event.token, certificate))

    def lifeline_up(self, token: bytes) -> None:
        """Note that the session's lifeline is up."""
        session = self._unattached.pop(token, None)
        if session is not None:
            session.attached = self.attached_once = True
        elif token not in self.by_token:
            self._context.out.append(EndSession(token))

    def received(self, event: Received) -> None:
        """Handle records of a session."""
        session = self.by_token.get(event.token)
        if session is None:
            return
        self._pairs, self._told, faults = 0, False, 0
        for record in event.records:
            try:
                self._handle(session, record)
            except StokerError as error:
                self._context.send_error(event.token, error, *_concerned(record, error))
                self._log_refusal(session, record, error)
                faults += 1
            if faults > MAX_FAULTS:
                reason = f"more than {MAX_FAULTS} errors in one message"
                self.end(session.token, reason, reads_on=True)
            if session.token not in self.by_token:
                return
        if session.group is not None:
            self._groups.fill_run(session.group, session.group.members[session.token])

    def end(self, token: bytes, reason: str, *, reads_on: bool = False) -> None:
        """End a session; its memory is freed once no worker writes to it.

        Args:
            token: the session's token.
            reason: for the log.
            reads_on: whether its client may still read the slots that it holds.
        """
        session = self.by_token.pop(token, None)
        if session is None:
            self._groups.free_departed(token)
            return
        facts = session.facts()
        self._unattached.pop(token, None)
        self._openings.leave(session)
        self._replays.leave(token)
        if session.group is not None:
            self._groups.close(session.group, token, reads_on=reads_on)
        self._context.out.append(EndSession(token))
        self._context.log("info", "session_ended", **facts, reason=reason)

    def end_all(self, reason: str) -> None:
        """Accept no new sessions; send BYE to all existing ones."""
        self.closed = True
        for token in list(self.by_token):
            self._context.send(token, Bye(reason))
            self.end(token, reason, reads_on=True)

    def facts(self, token: bytes) -> dict[str, object]:
        """Return what a log line says about the client of a session; empty if there is none."""
        session = self.by_token.get(token)
        return {} if session is None else session.facts()

    def statuses(self, most: int, *, without: Session | None = None) -> list[SessionStatus]:
        """Return the descriptions of the first sessions in the order of HELLO; O(most)."""
        others = (one for one in self.by_token.values() if one is not without)
        return [session_status(one, self._context.now) for one in islice(others, most)]

    def announced(self, most: int) -> list[tuple[int, int]]:
        """Return (number, batches announced) of the first sessions; O(most)."""
        return [(one.number, _announced(one)) for one in islice(self.by_token.values(), most)]

    def tick(self) -> None:
        """End sessions whose lifeline did not come up in time; they are in order of HELLO."""
        limit = self._context.now - self._context.settings.hello_deadline_s
        for token, session in list(self._unattached.items()):
            if session.greeted_at > limit:
                return
            self.end(token, "no lifeline in time")

    def _log_refusal(self, session: Session, record: ClientRecord, error: StokerError) -> None:
        asked: dict[str, object] = session.facts() | {"request": _name(record)}
        if isinstance(record, Open):
            asked["pipeline"] = pipeline_name(record.stream)
        self._context.log_refusal("request_refused", error.to_record(), **asked)

    def _check_hello(self, hello: Hello) -> None:
        if not hello.wire_min <= version.WIRE <= hello.wire_max:
            raise VersionError(
                f"this daemon ({DAEMON}) supports wire version {version.WIRE}, the client"
                f" {hello.wire_min} to {hello.wire_max}; use the same release of Stoker on both"
                " sides",
                expected=version.WIRE,
                got_min=hello.wire_min,
                got_max=hello.wire_max,
            )
        if self.closed:
            raise ConnectError(
                "the daemon is shutting down; connect to another, or again once it is back"
            )
        settings = self._context.settings
        if len(self.by_token) >= settings.max_sessions and not self._make_room():
            raise TryAgainError(
                f"the daemon has {len(self.by_token)} sessions, its limit; try again later,"
                f" close some, or raise {settings.sessions_limited_by}",
                sessions=len(self.by_token),
            )

    def _make_room(self) -> bool:
        """End a session that is not attached; whether there was one.

        It is the oldest of the process that has most of them, so a process with many idle ones
        locks out only itself.
        """
        idle = Counter(session.process for session in self._unattached.values())
        if not idle:
            return False
        most = max(idle.values())
        for token, session in self._unattached.items():
            if idle[session.process] == most:
                reason = "the daemon has its limit of sessions and this one did not attach yet"
                self._context.send(token, Bye(reason))
                self.end(token, reason)
                return True
        return False

    def _handle(self, session: Session, record: ClientRecord) -> None:
        if isinstance(record, Close):
            self.end(session.token, "closed by the client")
        elif not session.attached:
            raise ProtocolError(f"{_name(record)} came before the lifeline was up; attach first")
        elif isinstance(record, Release):
            self._release(session, record)
        elif isinstance(record, Credit):
            self._groups.credit(self._group(session, record), session.token, record)
        elif isinstance(record, Seek):
            self._seek(self._group(session, record), session.token, record)
        elif isinstance(record, Open):
            self._open(session, record)
        elif isinstance(record, AskReplay):
            self._replays.ask(session.token, self._group(session, record), record)
        elif isinstance(record, AskStatus | SetWorkers):
            self._tell(session, record)
        else:
            raise ProtocolError("expected one HELLO per session, got a second one")

    def _tell(self, session: Session, record: AskStatus | SetWorkers) -> None:
        """Answer with STATUS; for a message with several questions once."""
        if isinstance(record, SetWorkers):
            self._resize(session, record)
        if not self._told:
            asked = record if isinstance(record, AskStatus) else AskStatus()
            self._context.send(session.token, self._status_for(session, asked))
        self._told = True

    def _resize(self, session: Session, record: SetWorkers) -> None:
        most = self._context.settings.workers
        if not session.client.owns:
            raise AccessError(
                "only the daemon's own user, or root, on its host may change the number of workers:"
                " run the command as that user, with the ipc:// address"
            )
        if not 1 <= record.workers <= most:
            raise UsageError(
                f"expected 1 to {most} workers, the number with which the daemon was started, got"
                f" {record.workers}; to have more, set workers.count and start it again"
            )
        before = self._pool.wanted
        self._pool.resize(record.workers)
        self._context.log("info", "workers_resized", before=before, workers=record.workers)

    def _status_for(self, session: Session, record: AskStatus) -> Status:
        """Return STATUS; O(sessions) if they are asked for."""
        if not record.sessions:
            return Status(self._status())
        settings = self._context.settings
        return Status(
            self._status(),
            self.statuses(MAX_LISTED, without=session),
            list(settings.datasets)[:MAX_LISTED],
            list(settings.pipelines)[:MAX_LISTED],
        )

    def _open(self, session: Session, record: Open) -> None:
        if session.opening is not None or session.group is not None:
            raise ProtocolError(
                "expected one OPEN per session, got a second one; use another session for another "
                "stream"
            )
        self._openings.begin(session, record)

    def _seek(self, group: Group, token: bytes, record: Seek) -> None:
        try:
            self._groups.seek(group, token, record)
        finally:
            self._openings.check_gate(group)
        if self._pool.broken:
            self._groups.end_run(group, token, broken(self._pool).to_record())

    def _release(self, session: Session, record: Release) -> None:
        if session.group is None:
            self._context.counts.stale_releases += len(record.slots)
            return
        slots = len(session.group.slots.slots)
        self._pairs += len(record.slots)
        if self._pairs > slots:
            raise ProtocolError(
                f"RELEASE: expected at most {slots} pairs in one message, the number of slots,"
                f" got {self._pairs}"
            )
        self._groups.release(session.group, session.token, record)

    def _group(self, session: Session, record: ClientRecord) -> Group:
        if session.group is None:
            raise ProtocolError(f"{_name(record)} came before OPENED; open a stream first")
        return session.group


def _announced(session: Session) -> int:
    """Return how many batches a session got since it opened its stream; 0 without one."""
    member = None if session.group is None else session.group.members.get(session.token)
    return 0 if member is None else member.tally.announced


def _name(record: ClientRecord) -> str:
    return type(record).__name__.upper()


def _concerned(record: ClientRecord, error: StokerError) -> tuple[int, int | None]:
    """Return the request and the run that an error of this record belongs to."""
    if isinstance(record, Open | AskReplay):
        return record.request, None
    if isinstance(record, Seek) and not isinstance(error, ProtocolError):
        return 0, record.run
    return 0, None
