"""The daemon: one thread that turns input into events and carries out the core's instructions.

    sockets, workers, helper thread, signals, time  ->  events  ->  Core.handle  ->  instructions

Each turn of the loop reads all input, passes the events to the core in order and carries out its
instructions; then it sleeps until there is input, at most `TICK_S`. Nothing in a turn waits:
memory is reserved and freed in the reserver's thread, pipelines are built in one-off processes, log
lines and metrics have their own threads, and a send that would wait ends its session instead. All
records for one session in a turn are sent as one message. Before a turn the loop rests while no
process needs an answer (`Core.rest_s`, at most 3 ms): with cheap batches, one turn per report would
cost more than the batches. A turn stops handling events after `BUDGET_S`; the next one continues
without sleeping, and reads nothing from clients while `BACKLOG` events wait. The duration of turns
is measured and exported.

`close` closes everything that this process opened, in an order that lets a client read BYE before
its lifeline ends. Nothing here imports numba, torch or pyarrow; a test checks that.
"""

import collections
import contextlib
import gc
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from stoker.protocol import messages
from stoker.server.daemon.address import SocketFolder, group_number
from stoker.server.daemon.broker import Broker
from stoker.server.daemon.loop import TURN_LIMIT_S, Poller, TurnTimes
from stoker.server.daemon.quarantine import QuarantineFiles
from stoker.server.daemon.reserver import Reserver
from stoker.server.daemon.sidesocket import SideSocket
from stoker.server.daemon.snapshot import Snapshot
from stoker.server.daemon.supervisor import Supervisor
from stoker.server.settings import logs
from stoker.server.settings.config_types import Config
from stoker.server.state import events
from stoker.server.state import instructions as ins
from stoker.server.state.core import Core
from stoker.server.state.settings import Settings
from stoker.server.work.records import (
    AddSlab,
    BuildRequest,
    CloseStream,
    DropSlab,
    ReplayRequest,
    ToWorker,
)

TICK_S: Final = 0.25
LEAST_REST_S: Final = 0.0002
BUDGET_S: Final = 0.0025
BACKLOG: Final = 1024
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Processes(Protocol):
    """The supervisor's interface to the daemon; tests pass their own implementation."""

    def start(self) -> None:
        """Start the template process."""

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when one is readable."""

    def start_worker(self, worker: int) -> None:
        """Start a worker."""

    def kill_worker(self, worker: int, reason: str) -> None:
        """Kill a worker."""

    def recall(self, worker: int, claim: int) -> None:
        """Take work back from a worker that has not started it."""

    def start_build(self, request: BuildRequest) -> None:
        """Start a one-off builder."""

    def start_replay(self, request: ReplayRequest) -> None:
        """Start a one-off replayer."""

    def take_replay(self, replay: int) -> int | None:
        """Return the descriptor of a replay's memory; the caller owns it."""

    def drop_replay(self, replay: int) -> None:
        """End a replay and free its memory."""

    def send(self, worker: int, record: ToWorker, descriptor: int | None = None) -> None:
        """Send a worker a record."""

    def close(self) -> None:
        """Kill and reap all."""


class Daemon:
    """A daemon that listens from its construction on, and works while `run` runs.

    Attributes:
        address: the address that it listens at.
    """

    def __init__(
        self,
        config: Config,
        *,
        supervisor: Callable[..., Processes] = Supervisor,
        now: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the address, start the template process, listen.

        Raises:
            UsageError: the address cannot be used, or a configured name does not exist.
            ResourceError: the system refuses something.
        """
        self.address = config.daemon.address
        self._now = now
        self._rest = rest
        self._outbox: dict[bytes, list[messages.DaemonRecord]] = {}
        self._events: collections.deque[events.Event] = collections.deque()
        self._exit_code: int | None = None
        self._stops_asked = 0
        self._next_tick = now()
        self._poller = Poller()
        self._turns = TurnTimes()
        self._slow_log = logs.RateLimit(burst=1, period_s=10.0)
        with contextlib.ExitStack() as stack:
            self._core = Core(settings(config))
            self._open_wake(stack)
            stack.enter_context(self._signals())
            place = SocketFolder(config.daemon.address, group_number(config.daemon.socket_group))
            stack.callback(place.close)
            self._reserver = Reserver(config.memory.limit)
            stack.callback(self._reserver.close)
            folder = config.bad_samples.folder
            self._bad_samples = QuarantineFiles(Path(folder)) if folder else None
            if self._bad_samples is not None:
                stack.callback(self._bad_samples.close)
            self._supervisor = supervisor(
                cache_root=config.daemon.cache_root,
                python_path=list(config.daemon.python_path),
                op_modules=config.daemon.op_modules,
                fail_points=config.testing.fail_points,
                shares=config.workers.count,
                debug_memory=config.workers.debug_memory,
                on_event=self._events.append,
                now=now,
            )
            stack.callback(self._supervisor.close)
            self._supervisor.start()
            self._side = SideSocket(place, self._lifeline_up, self._lifeline_down, now)
            stack.callback(self._side.close)
            self._broker = Broker(place, self._hello, self._received, now)
            stack.callback(self._broker.close)
            self._snapshot = self._take_snapshot()
            if config.metrics.address:
                from stoker.server.daemon.metrics import Endpoint  # noqa: PLC0415 - an HTTP server

                endpoint = Endpoint(config.metrics.address, lambda: self._snapshot)
                stack.callback(endpoint.close)
                logs.log("info", "metrics_listening", port=endpoint.port)
            self._resources = stack.pop_all()

    def run(self) -> int:
        """Work until the core decides Exit; return the exit code."""
        logs.log("info", "listening", address=self.address, pid=os.getpid())
        gc.collect()
        gc.freeze()  # later collections can skip objects that live as long as the daemon
        try:
            # The core has no clock: it needs the time before it gives workers deadlines.
            self._carry_out(self._core.handle(events.Tick(self._now())))
            self._carry_out(self._core.start())
            while self._exit_code is None:
                self._turn()
        finally:
            gc.unfreeze()
        logs.log("info", "stopped", code=self._exit_code)
        return self._exit_code

    def stop(self) -> None:
        """Ask for a stop, as SIGTERM does; may be called in any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_in, bytes([signal.SIGTERM]))

    def close(self) -> None:
        """Close everything: clients can read their last messages, then their lifelines end."""
        self._resources.close()

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- the loop

    def _turn(self) -> None:
        if not self._events and (rest_s := self._core.rest_s()) >= LEAST_REST_S:
            self._rest(rest_s)
        calls = self._calls()
        busy = bool(self._events) or self._broker.readable()
        ready = self._poller.wait(set(calls), 0.0 if busy else self._next_tick - self._now())
        self._turns.begin()
        for descriptor in ready:
            calls[descriptor]()
        if (busy or self._broker.fileno() in ready) and len(self._events) < BACKLOG:
            self._broker.drain()
        if self._now() >= self._next_tick:
            self._tick()
        while self._events and self._exit_code is None and self._turns.elapsed_s() < BUDGET_S:
            self._carry_out(self._core.handle(self._events.popleft()))
        self._post()
        took_s, cpu_s = self._turns.end()
        if took_s > TURN_LIMIT_S:
            self._note_slow_turn(took_s, cpu_s)

    def _calls(self) -> dict[int, Callable[[], None]]:
        return {
            self._wake_out: self._woken,
            self._broker.fileno(): _nothing,  # only the edge; `readable` has the answer
            self._reserver.fileno(): self._reserved,
            **self._side.descriptors(),
            **self._supervisor.descriptors(),
        }

    def _tick(self) -> None:
        now = self._now()
        self._next_tick = now + TICK_S
        self._side.tick()
        self._events.append(events.Tick(now))
        self._snapshot = self._take_snapshot()

    def _note_slow_turn(self, took_s: float, cpu_s: float) -> None:
        # If the processor time is short, the loop did not work that long: the system did not run
        # it.
        # A busy host is common and not a fault of the daemon.
        level = "warning" if cpu_s > TURN_LIMIT_S else "debug"
        suppressed = self._slow_log.allow(level, self._now())
        if suppressed is not None:
            facts = {"seconds": took_s, "cpu_seconds": cpu_s, "suppressed": suppressed}
            logs.write(level, "slow_turn", facts)

    # ---------------------------------------------------------------- events

    def _hello(self, peer: bytes, hello: messages.Hello) -> None:
        token = secrets.token_bytes(16)
        self._events.append(events.Greeted(self._now(), peer, token, hello))

    def _received(self, token: bytes, records: tuple[messages.ClientRecord, ...]) -> None:
        self._events.append(events.Received(self._now(), token, records))

    def _lifeline_up(self, token: bytes) -> None:
        self._events.append(events.LifelineUp(self._now(), token))

    def _lifeline_down(self, token: bytes) -> None:
        self._events.append(events.LifelineDown(self._now(), token))

    def _reserved(self) -> None:
        for slab, error in self._reserver.collect():
            if error is None:
                self._events.append(events.SlabReserved(self._now(), slab))
            else:
                self._events.append(
                    events.SlabRefused(self._now(), slab, str(error.details["reason"]))
                )

    def _woken(self) -> None:
        for number in os.read(self._wake_out, 64):
            if number in STOP_SIGNALS:
                self._stops_asked += 1
                at_once = self._stops_asked > 1
                self._events.append(events.StopAsked(self._now(), at_once))
                logs.log("info", "stop_asked", signal=signal.Signals(number).name, at_once=at_once)

    # ---------------------------------------------------------------- instructions

    def _carry_out(self, todo: Sequence[ins.Instruction]) -> None:
        for instruction in todo:
            kind = type(instruction)
            if self._outbox and kind not in _BESIDE:
                self._post()  # earlier records are sent first
            _DO[kind](self, instruction)

    def _send(self, do: ins.Send) -> None:
        self._outbox.setdefault(do.token, []).extend(map(self._completed, do.records))

    def _post(self) -> None:
        """Send the collected records, one message per session."""
        outbox, self._outbox = self._outbox, {}
        for token, records in outbox.items():
            if not self._broker.send(token, records):
                self._lose(token, "it is gone or does not read its messages")

    def _send_peer(self, do: ins.SendPeer) -> None:
        if do.token:
            self._side.expect(do.token)
        if not self._broker.send_peer(do.peer, do.records, do.token) and do.token:
            self._lose(do.token, "it went away before WELCOME")

    def _send_slab(self, do: ins.SendSlab) -> None:
        slab = self._reserver[do.slab]
        record = messages.Slab(do.slab, do.slots, do.slot_bytes, do.writable)
        if do.writable:
            sent = self._side.send_memory(do.token, record, slab.descriptor)
        else:
            descriptor = slab.reopen_read_only()
            sent = self._side.send_memory(do.token, record, descriptor)
            os.close(descriptor)
        if not sent:
            self._lose(do.token, "its lifeline is not up or not read")

    def _end_session(self, do: ins.EndSession) -> None:
        self._broker.forget(do.token)
        self._side.end(do.token)

    def _start_build(self, do: ins.StartBuild) -> None:
        self._supervisor.start_build(do.request)

    def _start_replay(self, do: ins.StartReplay) -> None:
        self._supervisor.start_replay(do.request)

    def _send_replay(self, do: ins.SendReplay) -> None:
        descriptor = self._supervisor.take_replay(do.replay)
        if descriptor is None:
            return  # the session went away in this same turn
        record = messages.Replayed(do.request, do.size_bytes)
        sent = self._side.send_memory(do.token, record, descriptor)
        os.close(descriptor)
        if not sent:
            self._lose(do.token, "its lifeline is not up or not read")

    def _drop_replay(self, do: ins.DropReplay) -> None:
        self._supervisor.drop_replay(do.replay)

    def _reserve_slab(self, do: ins.ReserveSlab) -> None:
        refusal = self._reserver.reserve(do.slab, do.size_bytes)
        if refusal is not None:
            self._events.append(
                events.SlabRefused(self._now(), do.slab, str(refusal.details["reason"]))
            )

    def _free_slab(self, do: ins.FreeSlab) -> None:
        self._reserver.free(do.slab)

    def _start_worker(self, do: ins.StartWorker) -> None:
        self._supervisor.start_worker(do.worker)

    def _kill_worker(self, do: ins.KillWorker) -> None:
        self._supervisor.kill_worker(do.worker, do.reason)

    def _tell_stream(self, do: ins.TellStream) -> None:
        slab = self._reserver[do.slab]
        self._supervisor.send(do.worker, AddSlab(do.slab, do.slab_bytes), slab.descriptor)
        self._supervisor.send(do.worker, do.stream)

    def _forget_stream(self, do: ins.ForgetStream) -> None:
        self._supervisor.send(do.worker, CloseStream(do.stream))
        self._supervisor.send(do.worker, DropSlab(do.slab))

    def _assign(self, do: ins.Assign) -> None:
        for work in do.work:
            self._supervisor.send(do.worker, work)

    def _recall(self, do: ins.Recall) -> None:
        self._supervisor.recall(do.worker, do.claim)

    def _log(self, do: ins.Log) -> None:
        logs.write(do.level, do.event, do.facts)

    def _quarantine(self, do: ins.Quarantine) -> None:
        if self._bad_samples is not None:
            self._bad_samples.add(do.dataset, do.bad)

    def _exit(self, do: ins.Exit) -> None:
        self._exit_code = do.code

    def _lose(self, token: bytes, why: str) -> None:
        """End a session that cannot be reached: close its lifeline and notify the core."""
        logs.log("warning", "session_lost", reason=why)
        self._side.forget(token)
        self._lifeline_down(token)

    # ---------------------------------------------------------------- helpers

    def _completed(self, record: messages.DaemonRecord) -> messages.DaemonRecord:
        if isinstance(record, messages.Status):
            return messages.Status({**record.counters, **self._own_counters()})
        return record

    def _take_snapshot(self) -> Snapshot:
        counters = {**self._core.counters(), **self._own_counters()}
        return Snapshot(self._now(), not self._stops_asked, counters, self._turns.copy())

    def _own_counters(self) -> dict[str, int | float]:
        return {
            "loop_turns_total": sum(self._turns.counts),
            "loop_slow_turns_total": self._turns.slow,
            "loop_turn_max_seconds": self._turns.max_s,
            "loop_turn_max_cpu_seconds": self._turns.max_cpu_s,
            "memory_granted_bytes": self._reserver.granted_bytes,
            "refused_messages_total": self._broker.refused_messages,
            "refused_connections_total": self._side.refused_connections,
        }

    def _open_wake(self, stack: contextlib.ExitStack) -> None:
        self._wake_out, self._wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        stack.callback(os.close, self._wake_out)
        stack.callback(os.close, self._wake_in)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn stop signals into bytes in the wake pipe; does nothing outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, _ignore) for number in STOP_SIGNALS}
        wakeup = signal.set_wakeup_fd(self._wake_in, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)


def settings(config: Config) -> Settings:
    """Return the core's settings from the configuration."""
    return Settings(
        workers=config.workers.count,
        memory_limit_bytes=int(config.memory.limit),
        datasets=config.datasets,
        pipelines=config.pipelines,
        claim_deadline_s=config.workers.claim_deadline_s,
        worker_start_s=config.workers.start_deadline_s,
        exit_with_last_client=config.daemon.exit_with_last_client,
        first_client_s=config.daemon.first_client_s,
        drain_s=config.daemon.grace_s,
        max_sessions=config.daemon.max_sessions,
        max_bad_fraction=config.bad_samples.max_fraction,
        crash_policy=config.bad_samples.crash_policy,
    )


def _nothing() -> None:
    """Do nothing."""


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the signal's number is already in the wake pipe."""


_BESIDE: Final = frozenset((ins.Send, ins.Assign, ins.Recall, ins.Log, ins.Quarantine))
"""Instructions that do not force collected records to be sent before them."""

_DO: Final[dict[type, Callable[[Any, Any], None]]] = {
    ins.Send: Daemon._send,
    ins.SendPeer: Daemon._send_peer,
    ins.SendSlab: Daemon._send_slab,
    ins.EndSession: Daemon._end_session,
    ins.StartBuild: Daemon._start_build,
    ins.StartReplay: Daemon._start_replay,
    ins.SendReplay: Daemon._send_replay,
    ins.DropReplay: Daemon._drop_replay,
    ins.ReserveSlab: Daemon._reserve_slab,
    ins.FreeSlab: Daemon._free_slab,
    ins.Quarantine: Daemon._quarantine,
    ins.StartWorker: Daemon._start_worker,
    ins.KillWorker: Daemon._kill_worker,
    ins.TellStream: Daemon._tell_stream,
    ins.ForgetStream: Daemon._forget_stream,
    ins.Assign: Daemon._assign,
    ins.Recall: Daemon._recall,
    ins.Log: Daemon._log,
    ins.Exit: Daemon._exit,
}
