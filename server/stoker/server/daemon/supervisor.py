"""The processes of the daemon: start the template; start, feed and kill its children.

Runs on the daemon's loop and never blocks: it owns descriptors, lists the callback for each
readable one, and turns received packets into events. Kills go through pidfds, so a reused pid is
never hit. A child counts as dead only when that is certain: the template has reaped it or, if the
template itself died, its pidfd has become readable. The event then carries the child's last row,
read from the shared progress page. A template that dies or does not answer is replaced
(`template_process`).
"""

import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from stoker.protocol.descriptors import MORE_PROCESSES
from stoker.protocol.errors import ProtocolError, ResourceError
from stoker.server.daemon.children import (
    BuilderChild,
    Child,
    DecoderChild,
    ReplayerChild,
    WatchedChild,
    WorkerChild,
)
from stoker.server.daemon.launch import Launched
from stoker.server.daemon.template_process import Answered, TemplateProcess
from stoker.server.state.events import Event, Recalled, WorkerDown
from stoker.server.state.worker_status import Seen
from stoker.server.work.work_records import (
    BuildRequest,
    DecoderRequest,
    ReplayMade,
    ReplayRequest,
    StackFile,
    ToWorker,
)
from stoker.server.workers import channel
from stoker.server.workers.child_config import OneOffRequest, WorkerConfig
from stoker.server.workers.death import describe, end_group
from stoker.server.workers.failpoints import FailPoints
from stoker.server.workers.template import ChildEnded, ForkChild, ForkRefused

OnEvent = Callable[[Event], None]
_MAX_READS = 256
_TURN_READS = 8
FORK_SHARE: Final = 0.5


def not_started(reason: str) -> str:
    """Return how a child died that the system did not start."""
    return f"not started: {reason}; {MORE_PROCESSES}"


class Supervisor:
    """Starts, feeds and kills the children of the template process.

    `on_event` is called on the loop, from `start` or from the callbacks of `descriptors`.
    """

    def __init__(  # noqa: PLR0913 - the needs of all kinds of children
        self,
        *,
        cache_root: str,
        python_path: Sequence[str],
        fail_points: str,
        shares: int,
        on_event: OnEvent,
        now: Callable[[], float],
        op_modules: Sequence[str] = (),
        debug_memory: bool = False,
        integrity: str = "auto",
        jpeg: str = "libjpeg",
        build_deadline_s: float = 300.0,
        start_deadline_s: float = 60.0,
        claim_deadline_s: float = 60.0,
        stage_times: bool = True,
        template: Launched | None = None,
    ) -> None:
        """Prepare; starts nothing.

        Args:
            cache_root: folder of compiled kernels.
            python_path: folders searched after `sys.path` where pipelines are imported.
            fail_points: fail points of the tests.
            shares: number of homes that the workers share.
            on_event: receives all events.
            now: the clock.
            op_modules: modules whose code the graph data of a client may name.
            debug_memory: run kernels between guard bytes.
            integrity: which rows are checked when they are read, see `open_dataset`.
            jpeg: the decoder of JPEGs with a grid, `libjpeg`, `stoker` or `auto`.
            build_deadline_s: a build without progress for this time is ended.
            start_deadline_s: a template that is not ready in this time is replaced, and one that
                does not answer a fork within `FORK_SHARE` of it.
            claim_deadline_s: workers write down their stack shortly before a chunk has taken this
                time.
            stage_times: whether workers time the stages of some rows.
            template: one that was launched with the same folders, which the supervisor now owns.
                None: `start` launches one.
        """
        self._cache_root = cache_root
        self._op_modules = tuple(op_modules)
        self._debug_memory = debug_memory
        self._integrity = integrity
        self._jpeg = jpeg
        self._build_deadline_s = build_deadline_s
        self._claim_deadline_s = claim_deadline_s
        self._stage_times = stage_times
        self._fail_points = fail_points
        self._shares = max(1, shares)
        self._on_event = on_event
        self._now = now
        self._fork_deadline_s = FORK_SHARE * start_deadline_s
        self._template = TemplateProcess(cache_root, python_path, start_deadline_s, now, template)
        self._children: dict[int, Child] = {}
        self._workers: dict[int, WorkerChild] = {}
        self._replays: dict[int, int | None] = {}
        self._next_child = 1
        self._fail = FailPoints(fail_points)
        self._withheld: list[ChildEnded] = []

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start the template process if it does not run, and wait until it is ready.

        Raises:
            ResourceError: it cannot start.
        """
        self._template.start()

    def tick(self) -> None:
        """Replace a template that is not ready in time, or does not answer a fork in time."""
        if self._template.tick():
            self._orphan()
        unanswered = [
            child.asked_at
            for child in self._children.values()
            if child.pidfd is None and not child.orphan
        ]
        if unanswered and self._template.ready:
            since = max(min(unanswered), self._template.answered_at)
            if self._now() - since > self._fork_deadline_s:
                self._template.lost(f"did not fork within {self._fork_deadline_s:g} s")
                self._orphan()

    def seen(self) -> dict[int, Seen]:
        """Return what each worker does now, by number."""
        return {number: child.look(self._now()) for number, child in self._workers.items()}

    def unready(self) -> str:
        """Return why no child can be started now; empty: one can."""
        return self._template.unready()

    def close(self) -> None:
        """Kill, reap and close everything; no child is alive when it returns. Idempotent."""
        for child in self._children.values():
            child.kill()
        self._template.kill()
        # The template's last packets may name children that are not known yet.
        self._read_control(replace=False)
        self._template.close()
        for child in self._children.values():
            child.await_death()
            child.close()
        self._children.clear()
        self._workers.clear()
        for replay in list(self._replays):
            self.drop_replay(replay)

    # ------------------------------------------------------------ requests of the daemon

    def start_worker(self, worker: int) -> None:
        """Fork a worker; answered by WorkerUp or WorkerDown."""
        try:
            ours, theirs = self._pair()
            child = WorkerChild(self._next_child, ours, theirs.dup(), worker)
        except OSError as error:  # no descriptor or memory is left
            why = not_started(error.strerror or str(error))
            self._on_event(WorkerDown(self._now(), worker, why, blame=False))
            return
        self._workers[worker] = child
        self._fork(child, theirs)
        child.configure(
            WorkerConfig(
                worker=worker,
                share=worker % self._shares,
                shares=self._shares,
                cache_root=self._cache_root,
                fail_points=self._fail_points,
                debug_memory=self._debug_memory,
                integrity=self._integrity,
                claim_deadline_s=self._claim_deadline_s,
                jpeg=self._jpeg,
                stage_times=self._stage_times,
            )
        )

    def start_build(self, request: BuildRequest) -> None:
        """Fork a builder; answered by Built, BuildFailed or BuildDied."""
        ours, theirs = self._pair()
        self._order(BuilderChild(self._next_child, ours, request.build), theirs, request)

    def end_build(self, build: int, reason: str) -> None:
        """Kill the process of a build; answered by BuildFailed at once, which says what it did."""
        for child in list(self._children.values()):
            if isinstance(child, BuilderChild) and child.build == build:
                self._give_up(child, reason)

    def start_replay(self, request: ReplayRequest) -> None:
        """Fork a replayer; answered by ReplayEnded or ReplayFailed."""
        ours, theirs = self._pair()
        self._replays[request.replay] = None
        request = msgspec.structs.replace(request, integrity=self._integrity)
        self._order(ReplayerChild(self._next_child, ours, request.replay), theirs, request)

    def compile_decoder(self, form: int) -> None:
        """Fork a compiler of the decoder; answered by DecoderReady or DecoderFailed."""
        ours, theirs = self._pair()
        self._order(DecoderChild(self._next_child, ours), theirs, DecoderRequest(form))

    def end_decoder(self, reason: str) -> None:
        """Kill the compiler of the decoder; answered by DecoderFailed at once."""
        for child in list(self._children.values()):
            if isinstance(child, DecoderChild):
                self._give_up(child, reason)

    def take_replay(self, replay: int) -> int | None:
        """Return the descriptor of a replay's memory, which the caller owns; None if missing."""
        return self._replays.pop(replay, None)

    def drop_replay(self, replay: int) -> None:
        """End a replay's process if it runs, and close its memory if there is some."""
        descriptor = self._replays.pop(replay, None)
        if descriptor is not None:
            os.close(descriptor)
        for child in self._children.values():
            if isinstance(child, ReplayerChild) and child.replay == replay:
                child.kill_asked = "its replay is no longer wanted"
                child.kill()

    def send(self, worker: int, record: ToWorker, descriptor: int | None = None) -> None:
        """Send a record to a worker; if its socket is full, later."""
        child = self._workers.get(worker)
        if child is not None:
            child.push(record, descriptor)

    def recall(self, worker: int, claim: int) -> None:
        """Take back the last work sent to a worker; answered by Recalled if it was unread."""
        child = self._workers.get(worker)
        if child is not None and child.take_back(claim):
            self._on_event(Recalled(self._now(), worker, claim))

    def kill_worker(self, worker: int, reason: str = "") -> None:
        """SIGKILL a worker; answered by WorkerDown."""
        child = self._workers.get(worker)
        if child is not None:
            child.kill_asked = reason or "killed by the daemon"
            child.note_state()
            child.kill()

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when each is readable."""
        found: dict[int, Callable[[], None]] = {}
        if self._template.control is not None:
            found[self._template.control.fileno()] = self._read_control
        for child in self._children.values():
            if child.queue:
                child.flush()
            if child.orphan and child.pidfd is not None:
                found[child.pidfd] = partial(self._gone, child)
            if not child.closed:
                found[child.sock.fileno()] = partial(self._read_child, child)
        return found

    def abandon(self, descriptor: int) -> bool:
        """Kill the process behind a descriptor, because its packets cannot be handled.

        Returns:
            Whether it is the template or one of its children.
        """
        if self._template.control is not None and descriptor == self._template.control.fileno():
            self._template.lost("sent what the daemon could not handle")
            self._orphan()
            return True
        for child in self._children.values():
            if not child.closed and descriptor == child.sock.fileno():
                child.kill_asked = child.kill_asked or "the daemon could not handle its packets"
                child.hang_up()
                child.kill()
                return True
            if descriptor == child.pidfd:
                return True
        return False

    # ------------------------------------------------------------ forks

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        ours, theirs = channel.pair()
        ours.setblocking(False)
        return ours, theirs

    def _fork(self, child: Child, theirs: socket.socket) -> None:
        self._next_child += 1
        self._children[child.number] = child
        child.asked_at = self._now()
        with theirs:
            sent = self._template.send(ForkChild(child.number, child.role), theirs.fileno())
        if not sent:
            self._ended(
                child, self._template.why or "the template process takes no requests", False
            )

    def _order(
        self,
        child: Child,
        theirs: socket.socket,
        request: BuildRequest | ReplayRequest | DecoderRequest,
    ) -> None:
        self._fork(child, theirs)
        child.push(
            OneOffRequest(
                request, self._cache_root, self._fail_points, self._op_modules,
                self._build_deadline_s, self._jpeg,
            )
        )  # fmt: skip

    def _give_up(self, child: WatchedChild, reason: str) -> None:
        if not child.answered:
            self._on_event(child.given_up(reason, self._now()))
            child.kill_asked = reason
            child.kill()

    # ------------------------------------------------------------ packets in

    def _read_control(self, replace: bool = True) -> None:
        for _ in range(_MAX_READS):
            if self._template.control is None:
                return
            try:
                received = self._template.read()
            except EOFError:
                if replace:
                    self._template.lost("died")
                    self._orphan()
                return
            if received is None:
                if self._template.control is None:
                    self._orphan()
                return
            self._take_answer(*received)

    def _take_answer(self, record: Answered, descriptor: int | None) -> None:
        child = self._children.get(record.child)
        if isinstance(record, ChildEnded):
            self._take_death(record)
        elif isinstance(record, ForkRefused):
            if child is not None:
                self._ended(child, not_started(record.reason), False)
        elif child is None:
            assert descriptor is not None
            os.close(descriptor)
        else:
            child.pidfd, child.pid = descriptor, record.pid
            if child.kill_asked is not None:
                child.kill()

    def _take_death(self, record: ChildEnded) -> None:
        self._withheld.append(record)
        if self._fail.visit("daemon.death"):
            return
        for report in self._withheld:
            child = self._children.get(report.child)
            if child is not None:
                self._ended(child, *describe(report.status))
        self._withheld.clear()

    def _orphan(self) -> None:
        """Report the children of a dead template, each once its death is certain."""
        for child in list(self._children.values()):
            child.orphan = True
            child.kill()
            if child.pidfd is None:  # it was never forked, or died with its parent
                self._gone(child)

    def _gone(self, child: Child) -> None:
        """Report a child whose template is dead: the kernel killed it with its parent."""
        if child.number in self._children:
            if child.pid:
                end_group(child.pid)
            self._ended(child, f"killed with the template: {self._template.why}", False)

    def _read_child(self, child: Child, packets: int = _TURN_READS) -> None:
        """Read packets of a child; the next poll reports the remaining ones.

        It reads several, because a turn after a rest should answer all packets that came meanwhile.
        """
        for _ in range(packets):
            try:
                received = channel.receive(child.sock, child.packets)
            except BlockingIOError:
                return
            except (OSError, ProtocolError, ResourceError):
                received = None
            if received is None:
                # The template reports its death; no more packets will come.
                child.hang_up()
                child.kill()
                return
            self._emit(child, *received)
        child.flush()

    def _emit(self, child: Child, record: Any, descriptor: int | None) -> None:
        event = child.event(record, self._now())
        if isinstance(record, ReplayMade) and isinstance(child, ReplayerChild):
            self._keep_replay(child.replay, descriptor)
        elif isinstance(record, StackFile) and isinstance(child, WatchedChild):
            child.watch(descriptor)
        if event is not None:
            self._on_event(event)

    def _keep_replay(self, replay: int, descriptor: int | None) -> None:
        if descriptor is not None and replay in self._replays:
            self._replays[replay] = descriptor
        elif descriptor is not None:
            os.close(descriptor)  # dropped meanwhile

    # ------------------------------------------------------------ deaths

    def _ended(self, child: Child, reason: str, blame: bool) -> None:
        try:
            # Packets that it sent before it died still count: its last chunk may be done.
            if not child.closed:
                self._read_child(child, _MAX_READS)
        finally:
            del self._children[child.number]
            if isinstance(child, WorkerChild):
                self._workers.pop(child.worker, None)
            event = child.death(reason, blame, self._now())
            child.close()
            if event is not None:
                self._on_event(event)
