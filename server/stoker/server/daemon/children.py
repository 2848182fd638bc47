"""Children of the template, each with its socket: a worker, a builder, a replayer and so on.

A child owns its descriptors and a queue of packets that its socket has no room for yet. Its class
turns its packets and its death into events. Nothing here blocks, except `await_death`,
which takes microseconds once a child was killed.
"""

import contextlib
import mmap
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, ClassVar, Final

import msgspec

from stoker.protocol.descriptors import await_readable
from stoker.protocol.errors import BuildError, SampleError
from stoker.server.daemon.stack_report import describe_stack, users_function
from stoker.server.daemon.worker_sight import WorkerSight, processor_time
from stoker.server.state.events import (
    BuildDied,
    BuildFailed,
    BuildProgress,
    Built,
    ChunkDone,
    ChunkFailed,
    DecoderFailed,
    DecoderMissed,
    DecoderProgress,
    DecoderReady,
    Event,
    KernelsUnstored,
    ReplayEnded,
    ReplayFailed,
    WorkerBusy,
    WorkerDown,
    WorkerUp,
)
from stoker.server.state.worker_status import Seen
from stoker.server.work.work_records import (
    BuildResult,
    DecoderCompiled,
    DecoderNotFound,
    Done,
    Failed,
    FromWorker,
    ProgressReport,
    ReplayMade,
    StackFile,
    Unstored,
    Work,
    WorkerReady,
)
from stoker.server.workers import channel
from stoker.server.workers.child_config import IDLE, MAX_STACK, PROGRESS, PROGRESS_BYTES, STACK_AT
from stoker.server.workers.death import stat_of
from stoker.server.workers.stage_page import StageReader

_DEATH_S: Final = 1.0


class Child(ABC):
    """A child process and its socket.

    Attributes:
        role: what the template forks, one of its `ROLES`.
        packets: the records that it sends.
        number: its number, given by the supervisor.
        sock: the daemon's end of its socket.
        pidfd: its process; None until the template reported the fork.
        asked_at: when the template was asked to fork it.
        orphan: whether its template is dead; it dies with it.
        pid: its process id; 0 until the template reported the fork.
        kill_asked: why it is to be killed; None: it is not.
        answered: whether it sent what it was started for.
        closed: whether its socket is closed; no packet comes any more.
        queue: packets that are not sent yet, each with a descriptor of its own.
        last_sent: the last packet sent.
    """

    role: ClassVar[str]
    packets: ClassVar[Any]

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.pidfd: int | None = None
        self.asked_at = 0.0
        self.orphan = False
        self.pid = 0
        self.kill_asked: str | None = None
        self.answered = False
        self.closed = False
        self.queue: deque[tuple[msgspec.Struct, int | None]] = deque()
        self.last_sent: msgspec.Struct | None = None

    @abstractmethod
    def event(self, record: Any, now: float) -> Event | None:
        """Return the event that a packet means; None: none."""

    @abstractmethod
    def death(self, reason: str, blame: bool, now: float) -> Event | None:
        """Return the event that its death means; None if its answer came before."""

    def push(self, record: msgspec.Struct, descriptor: int | None = None) -> None:
        """Send a packet, later if the socket is full; the descriptor is copied."""
        copy = None if descriptor is None else os.dup(descriptor)
        self.queue.append((record, copy))
        self.flush()

    def flush(self) -> None:
        """Send queued packets as far as the socket has room."""
        while self.queue and not self.closed:
            record, descriptor = self.queue[0]
            try:
                channel.send(self.sock, record, descriptor)
            except BlockingIOError:
                return
            except OSError:
                break
            self.queue.popleft()
            self.last_sent = record
            if descriptor is not None:
                os.close(descriptor)
        if self.queue:
            self.drop_queue()

    def drop_queue(self) -> None:
        """Forget the queued packets and close their descriptors."""
        for _, descriptor in self.queue:
            if descriptor is not None:
                os.close(descriptor)
        self.queue.clear()

    def hang_up(self) -> None:
        """Close the socket; no packet is sent or received any more."""
        self.drop_queue()
        if not self.closed:
            self.sock.close()
            self.closed = True

    def kill(self) -> None:
        """SIGKILL it through its pidfd, and its group, if the template has reported it."""
        if self.pidfd is not None:
            if not await_readable(self.pidfd, 0):  # it lives, so its pid is its own
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def await_death(self) -> None:
        """Kill it, and wait until the kernel has ended it."""
        self.kill()
        if self.pidfd is not None:
            await_readable(self.pidfd, _DEATH_S)

    def close(self) -> None:
        """Close all of its descriptors."""
        self.hang_up()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


class WorkerChild(Child):
    """A worker.

    Attributes:
        worker: its number in the state.
        far: the other end of its socket, kept to take back unread packets; None once closed.
    """

    role = "worker"
    packets = FromWorker

    def __init__(self, number: int, sock: socket.socket, far: socket.socket, worker: int) -> None:
        """Take both ends of its socket: the far one is kept to take back unread packets."""
        super().__init__(number, sock)
        self.worker = worker
        self.far: socket.socket | None = far
        self._state = ""
        self._page = os.memfd_create("stoker-progress", os.MFD_CLOEXEC)
        os.ftruncate(self._page, PROGRESS_BYTES)
        self._progress = mmap.mmap(self._page, PROGRESS_BYTES)
        PROGRESS.pack_into(self._progress, 0, *IDLE)
        self._sight = WorkerSight(StageReader(self._progress), processor_time)

    def look(self, now: float) -> Seen:
        """Return what it does now."""
        self._sight.pid = self.pid
        return self._sight.look(now)

    def note_state(self) -> None:
        """Note the process's state before it is killed: whether it runs, waits or is stopped."""
        with contextlib.suppress(OSError):
            self._state = stat_of(self.pid)[0].decode()

    def configure(self, record: msgspec.Struct) -> None:
        """Send its first packet, with the page on which it reports its progress."""
        self.push(record, self._page)
        os.close(self._page)

    def take_back(self, claim: int) -> bool:
        """Take back the work that was sent last, if it is unread.

        The kernel gives each packet to one reader. If the first unread packet is the last one sent,
        no other can follow: either the daemon gets it, or the worker did so first.
        """
        last = self.last_sent
        if self.far is None or self.queue or not isinstance(last, Work) or last.claim != claim:
            return False
        if channel.take_back(self.far, Work, lambda work: work.claim == claim) is None:
            return False
        self.last_sent = None
        return True

    def event(self, record: Any, now: float) -> Event:
        """Return the event of a packet."""
        match record:
            case Unstored():
                return KernelsUnstored(now, record.reason)
            case ProgressReport():
                return WorkerBusy(now, self.worker, record.compiling)
            case DecoderNotFound():
                return DecoderMissed(now, self.worker)
            case WorkerReady():
                self.answered = True
                return WorkerUp(now, self.worker, record.pid)
            case Done():
                return ChunkDone(now, self.worker, record)
            case Failed():
                why = record.code, record.message, record.details
                return ChunkFailed(now, self.worker, record.claim, record.stream, *why)
        raise TypeError(f"no event for {record}")

    def death(self, reason: str, blame: bool, now: float) -> Event:
        """Return WorkerDown with the last row and sample that it reported."""
        last = [None if number < 0 else number for number in PROGRESS.unpack_from(self._progress)]
        claim, row, sample = last
        if self.kill_asked:
            found = users_function(self._stack())
            reason = self.kill_asked + ("" if found is None else f", in {found}")
        return WorkerDown(now, self.worker, reason, blame, claim, row, sample, self._state)

    def _stack(self) -> str:
        """Return the stack that it has written down because its chunk took too long."""
        end = self._progress.find(b"\0", STACK_AT)
        return self._progress[STACK_AT : max(end, STACK_AT)].decode(errors="replace")

    def close(self) -> None:
        """Close all of its descriptors and the progress page."""
        super().close()
        if self.far is not None:
            self.far.close()
            self.far = None
            self._progress.close()


class WatchedChild(Child):
    """A one-off child that reports its progress, and is ended if it makes none."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        super().__init__(number, sock)
        self._stack: int | None = None

    def watch(self, descriptor: int | None) -> None:
        """Take the memory file into which it writes its stack if it makes no progress."""
        self._stack = descriptor

    def doing(self) -> str:
        """Say what it did when it wrote its stack."""
        stack = "" if self._stack is None else os.pread(self._stack, MAX_STACK, 0).decode()
        return describe_stack(stack)

    @abstractmethod
    def given_up(self, reason: str, now: float) -> Event:
        """Return the event that it is ended; later answers do not count."""

    def close(self) -> None:
        """Close all of its descriptors."""
        super().close()
        if self._stack is not None:
            os.close(self._stack)
            self._stack = None


class BuilderChild(WatchedChild):
    """A builder of one pipeline; `build` is the number of the build."""

    role = "builder"
    packets = BuildResult | Failed | ProgressReport | StackFile | Unstored

    def __init__(self, number: int, sock: socket.socket, build: int) -> None:
        super().__init__(number, sock)
        self.build = build

    def event(self, record: Any, now: float) -> Event | None:
        """Return the event of its answer or progress."""
        if isinstance(record, Unstored):
            return KernelsUnstored(now, record.reason)
        if isinstance(record, ProgressReport):
            return BuildProgress(now, self.build, record.done, record.total)
        if isinstance(record, StackFile):
            return BuildProgress(now, self.build)
        if self.answered:  # it was given up meanwhile
            return None
        self.answered = True
        if isinstance(record, BuildResult):
            return Built(now, record)
        return BuildFailed(now, self.build, record.code, record.message, record.details)

    def given_up(self, reason: str, now: float) -> Event:
        """Return BuildFailed with the function that it is in; later answers do not count."""
        self.answered = True
        error = BuildError(
            f"building the pipeline {reason}: {self.doing()}. Functions of a pipeline are"
            " tried when it is built, so they must end; compiling counts as progress. If it needs"
            " longer, raise workers.build_deadline_s"
        )
        return BuildFailed(now, self.build, *error.to_record())

    def death(self, reason: str, blame: bool, now: float) -> Event | None:
        """Return BuildFailed, BuildDied if it was killed from outside, unless it answered."""
        if self.answered:
            return None
        if not blame:
            return BuildDied(now, self.build, reason)
        error = BuildError(
            f"the process that builds the pipeline died ({reason}); its module or an op of it "
            "crashed while it was imported or compiled"
        )
        return BuildFailed(now, self.build, *error.to_record())


class ReplayerChild(Child):
    """A replayer of one sample; `replay` is the number of the replay."""

    role = "replayer"
    packets = ReplayMade | Failed

    def __init__(self, number: int, sock: socket.socket, replay: int) -> None:
        super().__init__(number, sock)
        self.replay = replay

    def event(self, record: Any, now: float) -> Event:
        """Return the event of its answer."""
        self.answered = True
        if isinstance(record, ReplayMade):
            return ReplayEnded(now, self.replay, record.size_bytes)
        return ReplayFailed(now, self.replay, record.code, record.message, record.details)

    def death(self, reason: str, blame: bool, now: float) -> Event | None:
        """Return ReplayFailed, unless it answered."""
        if self.answered:
            return None
        error = SampleError(
            f"the process that replays the sample died ({reason}); reading it or an op crashed"
        )
        return ReplayFailed(now, self.replay, *error.to_record())


class DecoderChild(WatchedChild):
    """A compiler of Stoker's own decoder of JPEGs."""

    role = "decoder_compiler"
    packets = DecoderCompiled | Failed | ProgressReport | StackFile | Unstored

    def event(self, record: Any, now: float) -> Event | None:
        """Return the event of its answer or progress."""
        if isinstance(record, Unstored):
            return KernelsUnstored(now, record.reason)
        if isinstance(record, ProgressReport | StackFile):
            return DecoderProgress(now)
        if self.answered:  # it was given up meanwhile
            return None
        self.answered = True
        if isinstance(record, DecoderCompiled):
            return DecoderReady(now)
        return DecoderFailed(now, record.message, died=False)

    def given_up(self, reason: str, now: float) -> Event:
        """Return DecoderFailed with the function that it is in; later answers do not count."""
        self.answered = True
        return DecoderFailed(now, f"its compiler {reason}: {self.doing()}", died=True)

    def death(self, reason: str, blame: bool, now: float) -> Event | None:
        """Return DecoderFailed, unless it answered."""
        return None if self.answered else DecoderFailed(now, reason, died=True)
