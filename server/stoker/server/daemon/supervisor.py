"""The processes of the daemon: start the template; start, feed and kill its children.

Runs on the daemon's loop and never blocks: it owns descriptors, lists the callback for each
readable one, and turns received packets into events. Kills go through pidfds, so a reused pid is
never hit. A child counts as dead only when that is certain: the template has reaped it or, if the
template itself died, its pidfd has become readable. The event then carries the child's last row,
read from the shared progress page. A template that dies is replaced by a new one.
"""

import contextlib
import mmap
import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from stoker.protocol.errors import BuildError, ProtocolError, SampleError
from stoker.server.daemon.launch import Launched, launch
from stoker.server.state.events import (
    BuildFailed,
    Built,
    ChunkDone,
    ChunkFailed,
    Event,
    Recalled,
    ReplayEnded,
    ReplayFailed,
    WorkerDown,
    WorkerUp,
)
from stoker.server.work.records import (
    BuildRequest,
    BuildResult,
    Done,
    Failed,
    FromWorker,
    Hired,
    ReplayMade,
    ReplayRequest,
    ToWorker,
    Work,
)
from stoker.server.workers import channel
from stoker.server.workers.death import describe
from stoker.server.workers.hire import IDLE, PROGRESS, ForkOrder, Hire
from stoker.server.workers.template import Ended, Fork, Forked

OnEvent = Callable[[Event], None]
_MAX_READS = 256
_TURN_READS = 8
_DEATH_MS = 1000


@dataclass
class _Child:
    """A worker, builder or replayer (its `role`): its socket, and what is known of its life.

    `build` is the number of the worker, build or replay that the child serves. `far` is a worker's
    end of its socket, kept to take back packets that it has not read; `last_claim` is the claim of
    the last packet sent, 0 if that packet was not work.
    """

    number: int
    role: str
    sock: socket.socket
    progress: mmap.mmap | None = None
    far: socket.socket | None = None
    last_claim: int = 0
    pidfd: int | None = None
    kill_asked: str | None = None
    answered: bool = False
    queue: deque[tuple[msgspec.Struct, int | None]] = field(default_factory=deque)
    build: int = 0
    closed: bool = False


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
        template: Launched | None = None,
    ) -> None:
        """Prepare; starts nothing.

        Args:
            cache_root: folder of compiled kernels.
            python_path: folders put before sys.path where pipelines are imported.
            fail_points: fail points of the tests.
            shares: number of homes that the workers share.
            on_event: receives all events.
            now: the clock.
            op_modules: modules whose code the graph data of a client may name.
            debug_memory: run kernels between guard bytes.
            template: one that was launched with the same folders, which the supervisor now owns.
                None: `start` launches one.
        """
        self._cache_root = cache_root
        self._op_modules = tuple(op_modules)
        self._debug_memory = debug_memory
        self._python_path = list(python_path)
        self._fail_points = fail_points
        self._shares = max(1, shares)
        self._on_event = on_event
        self._now = now
        self._template = template
        self._children: dict[int, _Child] = {}
        self._workers: dict[int, int] = {}
        self._replays: dict[int, int | None] = {}
        self._next_child = 1

    # ------------------------------------------------------------ life

    def start(self) -> None:
        """Start the template process if there is none; children can be started at once."""
        if self._template is None:
            self._template = launch(self._cache_root, self._python_path)

    def close(self) -> None:
        """Kill, reap and close everything; no child is alive when it returns. Idempotent."""
        for child in self._children.values():
            self._kill(child)
        if self._template is not None:
            self._template.process.kill()
            self._template.process.wait()
            # The template's last packets may name children that are not known yet.
            self._read_control(replace=False)
            self._template.close()
            self._template = None
        for child in self._children.values():
            self._await_death(child)
            self._close_child(child)
        self._children.clear()
        self._workers.clear()
        for replay in list(self._replays):
            self.drop_replay(replay)

    # ------------------------------------------------------------ requests of the daemon

    def start_worker(self, worker: int) -> None:
        """Fork a worker; answered by WorkerUp or WorkerDown."""
        child = self._fork("worker")
        self._workers[worker] = child.number
        child.build = worker
        page = os.memfd_create("stoker-progress", os.MFD_CLOEXEC)
        os.ftruncate(page, mmap.PAGESIZE)
        child.progress = mmap.mmap(page, mmap.PAGESIZE)
        PROGRESS.pack_into(child.progress, 0, *IDLE)
        hire = Hire(
            worker=worker,
            share=worker % self._shares,
            shares=self._shares,
            cache_root=self._cache_root,
            fail_points=self._fail_points,
            debug_memory=self._debug_memory,
        )
        self._push(child, hire, page)
        os.close(page)

    def start_build(self, request: BuildRequest) -> None:
        """Fork a builder; answered by Built or BuildFailed."""
        child = self._fork("builder")
        child.build = request.build
        self._push(
            child, ForkOrder(request, self._cache_root, self._fail_points, self._op_modules), None
        )

    def start_replay(self, request: ReplayRequest) -> None:
        """Fork a replayer; answered by ReplayEnded or ReplayFailed."""
        child = self._fork("replayer")
        child.build = request.replay
        self._replays[request.replay] = None
        self._push(
            child, ForkOrder(request, self._cache_root, self._fail_points, self._op_modules), None
        )

    def take_replay(self, replay: int) -> int | None:
        """Return the descriptor of a replay's memory, which the caller owns; None if missing."""
        return self._replays.pop(replay, None)

    def drop_replay(self, replay: int) -> None:
        """End a replay's process if it runs, and close its memory if there is some."""
        descriptor = self._replays.pop(replay, None)
        if descriptor is not None:
            os.close(descriptor)
        for child in self._children.values():
            if child.role == "replayer" and child.build == replay:
                child.kill_asked = "its replay is no longer wanted"
                self._kill(child)

    def send(self, worker: int, record: ToWorker, descriptor: int | None = None) -> None:
        """Send a record to a worker; if its socket is full, later."""
        number = self._workers.get(worker)
        if number is not None:
            self._push(self._children[number], record, descriptor)

    def recall(self, worker: int, claim: int) -> None:
        """Take back the work that was sent to a worker last; answered by Recalled if it is unread.

        The kernel gives each packet to one reader. If the first unread packet is the last one sent,
        no other can follow: either the supervisor gets it, or the worker did so first.
        """
        child = self._children.get(self._workers.get(worker, 0))
        if child is None or child.far is None or child.queue or child.last_claim != claim:
            return
        if channel.take_back(child.far, Work, lambda work: work.claim == claim) is not None:
            child.last_claim = 0
            self._on_event(Recalled(self._now(), worker, claim))

    def kill_worker(self, worker: int, reason: str = "") -> None:
        """SIGKILL a worker; answered by WorkerDown."""
        number = self._workers.get(worker)
        if number is not None:
            self._children[number].kill_asked = reason or "killed by the daemon"
            self._kill(self._children[number])

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when each is readable."""
        found: dict[int, Callable[[], None]] = {}
        if self._template is not None:
            found[self._template.control.fileno()] = self._read_control
        for child in self._children.values():
            if child.queue:
                self._flush(child)
            if not child.closed:
                found[child.sock.fileno()] = partial(self._read_child, child)
        return found

    # ------------------------------------------------------------ packets out

    def _fork(self, role: str) -> _Child:
        assert self._template is not None
        ours, theirs = channel.pair()
        ours.setblocking(False)
        child = _Child(self._next_child, role, ours)
        if role == "worker":
            child.far = theirs.dup()
        self._next_child += 1
        self._children[child.number] = child
        # If the template died meanwhile, the end of its socket is handled for all its children.
        with theirs, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            channel.send(self._template.control, Fork(child.number, role), theirs.fileno())
        return child

    def _push(self, child: _Child, record: msgspec.Struct, descriptor: int | None) -> None:
        # The queue owns a copy of the descriptor: the caller may close its own at once.
        copy = None if descriptor is None else os.dup(descriptor)
        child.queue.append((record, copy))
        self._flush(child)

    def _flush(self, child: _Child) -> None:
        while child.queue and not child.closed:
            record, descriptor = child.queue[0]
            try:
                channel.send(child.sock, record, descriptor)
            except BlockingIOError:
                return
            except OSError:
                break
            child.queue.popleft()
            child.last_claim = record.claim if isinstance(record, Work) else 0
            if descriptor is not None:
                os.close(descriptor)
        if child.queue:
            self._drop_queue(child)

    def _drop_queue(self, child: _Child) -> None:
        for _, descriptor in child.queue:
            if descriptor is not None:
                os.close(descriptor)
        child.queue.clear()

    def _kill(self, child: _Child) -> None:
        if child.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)

    def _await_death(self, child: _Child) -> None:
        """Wait until the kernel has ended a killed child; takes microseconds."""
        self._kill(child)
        if child.pidfd is not None:
            poller = select.poll()
            poller.register(child.pidfd, select.POLLIN)
            poller.poll(_DEATH_MS)

    # ------------------------------------------------------------ packets in

    def _read_control(self, replace: bool = True) -> None:
        for _ in range(_MAX_READS):
            if self._template is None:
                return
            try:
                received = channel.receive(self._template.control, Forked | Ended)
            except BlockingIOError:
                return
            except (OSError, ProtocolError):
                received = None
            if received is None:
                if replace:
                    self._template_gone()
                return
            self._hear(*received)

    def _hear(self, record: Forked | Ended, descriptor: int | None) -> None:
        child = self._children.get(record.child)
        if isinstance(record, Ended):
            if child is not None:
                self._ended(child, *describe(record.status))
        elif child is None:
            assert descriptor is not None
            os.close(descriptor)
        else:
            child.pidfd = descriptor
            if child.kill_asked is not None:
                self._kill(child)

    def _template_gone(self) -> None:
        """Replace the template; its children died with it and are reported once that is certain."""
        assert self._template is not None
        self._template.close()
        self._template = None
        orphans = list(self._children.values())
        for child in orphans:
            self._gone(child)
        self.start()

    def _gone(self, child: _Child) -> None:
        """Report a child whose template is dead: the kernel killed it with its parent."""
        self._await_death(child)
        self._ended(child, "killed with the template process", False)

    def _read_child(self, child: _Child, packets: int = _TURN_READS) -> None:
        """Read packets of a child; the next poll reports the remaining ones.

        It reads several, because a turn after a rest should answer all packets that came meanwhile.
        """
        kinds = FromWorker if child.role == "worker" else BuildResult | ReplayMade | Failed
        for _ in range(packets):
            try:
                received = channel.receive(child.sock, kinds)
            except BlockingIOError:
                return
            except (OSError, ProtocolError):
                received = None
            if received is None:
                # The template reports its death; no more packets will come.
                child.sock.close()
                child.closed = True
                self._drop_queue(child)
                self._kill(child)
                return
            self._emit(child, *received)
        self._flush(child)

    def _emit(
        self, child: _Child, record: FromWorker | BuildResult | ReplayMade, descriptor: int | None
    ) -> None:
        now, worker = self._now(), child.build
        match record:
            case Hired():
                child.answered = True
                self._on_event(WorkerUp(now, worker, record.pid))
            case Done():
                self._on_event(ChunkDone(now, worker, record))
            case BuildResult():
                child.answered = True
                self._on_event(Built(now, record))
            case ReplayMade():
                child.answered = True
                self._keep_replay(child.build, record, descriptor)
            case Failed() if child.role != "worker":
                child.answered = True
                failed = BuildFailed if child.role == "builder" else ReplayFailed
                self._on_event(
                    failed(now, child.build, record.code, record.message, record.details)
                )
            case Failed():
                self._on_event(
                    ChunkFailed(
                        now,
                        worker,
                        record.claim,
                        record.stream,
                        record.code,
                        record.message,
                        record.details,
                    )
                )

    def _keep_replay(self, replay: int, made: ReplayMade, descriptor: int | None) -> None:
        if descriptor is not None and replay in self._replays:
            self._replays[replay] = descriptor
        elif descriptor is not None:
            os.close(descriptor)  # dropped meanwhile
        self._on_event(ReplayEnded(self._now(), replay, made.size_bytes))

    # ------------------------------------------------------------ deaths

    def _ended(self, child: _Child, reason: str, blame: bool) -> None:
        # Packets that it sent before it died still count: its last chunk may be done.
        if not child.closed:
            self._read_child(child, _MAX_READS)
        del self._children[child.number]
        if child.role == "worker":
            self._workers.pop(child.build, None)
            claim, row, sample = IDLE
            if child.progress is not None:
                claim, row, sample = PROGRESS.unpack_from(child.progress, 0)
            if child.kill_asked is not None:
                reason = child.kill_asked
            event = WorkerDown(
                self._now(),
                child.build,
                reason,
                blame,
                claim if claim >= 0 else None,
                row if row >= 0 else None,
                sample if sample >= 0 else None,
            )
            self._close_child(child)
            self._on_event(event)
            return
        self._close_child(child)
        if not child.answered and child.role == "replayer":
            death = SampleError(
                f"the process that replays the sample died ({reason}); reading it or an op crashed"
            )
            self._on_event(ReplayFailed(self._now(), child.build, *death.to_record()))
        elif not child.answered:
            error = BuildError(
                f"the process that builds the pipeline died ({reason}); its module or an op of it "
                "crashed while it was imported or compiled"
            )
            self._on_event(BuildFailed(self._now(), child.build, *error.to_record()))

    def _close_child(self, child: _Child) -> None:
        self._drop_queue(child)
        if not child.closed:
            child.sock.close()
            child.closed = True
        if child.far is not None:
            child.far.close()
            child.far = None
        if child.pidfd is not None:
            os.close(child.pidfd)
            child.pidfd = None
        if child.progress is not None:
            child.progress.close()
            child.progress = None
