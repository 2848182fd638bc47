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

An unexpected exception ends only what it concerns (`guard`). If the core raises, the
daemon ends, because its state is in doubt.

`close` closes everything that this process opened, in an order that lets a client read BYE before
its lifeline ends. Nothing here imports numba, torch or pyarrow; a test checks that.
"""

import collections
import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stoker.protocol import messages
from stoker.server.daemon.accept_limit import AcceptLimit
from stoker.server.daemon.broker import Broker
from stoker.server.daemon.core_settings import settings
from stoker.server.daemon.descriptor_limits import open_count
from stoker.server.daemon.dispatcher import Dispatcher, TakesBadSamples
from stoker.server.daemon.guard import EXIT_CODE, Guard, StateInDoubtError, session_failed
from stoker.server.daemon.lifelines import Lifelines
from stoker.server.daemon.page.recent_notes import RecentBadSamples
from stoker.server.daemon.peers import Peers
from stoker.server.daemon.poller import TURN_LIMIT_S, Poller, TurnTimes
from stoker.server.daemon.processes import Processes
from stoker.server.daemon.quarantine import QuarantineFiles
from stoker.server.daemon.readiness import Readiness
from stoker.server.daemon.reloader import Reloader
from stoker.server.daemon.remote.access import Access, access_of
from stoker.server.daemon.remote.tcp_listener import TcpListener, check_exposure
from stoker.server.daemon.reserver import Reserver
from stoker.server.daemon.service_manager import ServiceManager
from stoker.server.daemon.sidesocket import SideSocket
from stoker.server.daemon.snapshot import MOST_SESSIONS, Snapshot
from stoker.server.daemon.socket_folder import (
    SocketFolder,
    group_number,
    open_to_others,
    socket_path,
)
from stoker.server.daemon.stop_signals import StopSignals
from stoker.server.daemon.supervisor import Supervisor
from stoker.server.settings import logs
from stoker.server.settings.config_types import Config, MetricsSection
from stoker.server.state import events
from stoker.server.state.core import Core

if TYPE_CHECKING:  # importing it takes an HTTP server
    from stoker.server.daemon.metrics_endpoint import Endpoint

TICK_S: Final = 0.25
LEAST_REST_S: Final = 0.0002
BUDGET_S: Final = 0.0025
BACKLOG: Final = 1024


class Daemon:
    """A daemon that listens from its construction on, and works while `run` runs.

    Attributes:
        address: the address that it listens at.
        metrics_port: where its metrics endpoint listens; None without one.
    """

    def __init__(
        self,
        config: Config,
        *,
        supervisor: Callable[..., Processes] = Supervisor,
        now: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
        reloader: Reloader | None = None,
    ) -> None:
        """Take the address, start the template process, listen once that is ready.

        Args:
            config: the configuration.
            supervisor: makes the supervisor of its processes.
            now: the clock.
            rest: waits.
            reloader: reads the configuration again at SIGHUP; None: nothing does.

        Raises:
            UsageError: the address cannot be used, or a configured name does not exist.
            ResourceError: the system refuses something, or no worker can be started.
        """
        self.address = config.daemon.address
        self._now, self._rest, self._reloader = now, rest, reloader
        self._events: collections.deque[events.Event] = collections.deque()
        self._stops_asked = 0
        self._next_tick = now()
        self._access: Access | None = None
        self._poller, self._turns, self._peers = Poller(), TurnTimes(), Peers()
        self._guard = Guard(now, config.testing.fail_points)
        self._slow_log = logs.RateLimit(burst=1, period_s=10.0)
        with contextlib.ExitStack() as stack:
            self._core = Core(settings(config))
            self._stops = StopSignals()
            stack.callback(self._stops.close)
            stack.enter_context(self._stops.caught())
            place = SocketFolder(config.daemon.address, group_number(config.daemon.socket_group))
            stack.callback(place.close)
            self._reserver = Reserver(config.memory.limit)
            stack.callback(self._reserver.close)
            recent = RecentBadSamples()
            bad_samples: list[TakesBadSamples] = [recent]
            bad_samples += _quarantine(config.bad_samples.folder, stack)
            self._supervisor = supervisor(
                cache_root=config.daemon.cache_root,
                python_path=list(config.daemon.python_path),
                op_modules=config.daemon.op_modules,
                fail_points=config.testing.fail_points,
                shares=config.workers.count,
                debug_memory=config.workers.debug_memory,
                integrity=config.daemon.integrity,
                jpeg=config.daemon.jpeg,
                build_deadline_s=config.workers.build_deadline_s,
                start_deadline_s=config.workers.start_deadline_s,
                claim_deadline_s=config.workers.claim_deadline_s,
                stage_times=config.metrics.stage_times,
                on_event=self._events.append,
                now=now,
            )
            stack.callback(self._supervisor.close)
            self._supervisor.start()
            self._side = self._lifelines(place, config, stack)
            stack.callback(self._side.close)
            self._broker = Broker(
                place, self._hello, self._received, now, self._guard, self._failed,
                self._core.client_facts, self._side.tcp,
            )  # fmt: skip
            stack.callback(self._broker.close)
            self._dispatcher = Dispatcher(
                self._broker, self._side, self._reserver, self._supervisor, bad_samples,
                self._events.append, self._completed, self._guard,
            )  # fmt: skip
            self._lasting_calls = {
                self._stops.readable: self._woken,
                self._broker.fileno(): _nothing,  # only the edge; `readable` has the answer
                self._broker.connections.fileno(): self._connected,
                self._reserver.fileno(): self._reserved,
                **self._reloads(stack),
            }
            self._service = stack.enter_context(contextlib.closing(ServiceManager()))
            self._readiness = Readiness(self._accept_limit, self._supervisor, now)
            self._endpoint: Endpoint | None = None
            self.metrics_port: int | None = None
            self._snapshot = self._take_snapshot()
            if config.metrics.address:
                self._serve_metrics(config.metrics, recent, stack)
            self._resources = stack.pop_all()

    @property
    def tcp_address(self) -> str | None:
        """The address for other hosts, with its port; None without one."""
        return None if self._side.tcp is None else str(self._side.tcp.address)

    def _serve_metrics(
        self, settings: MetricsSection, bad_samples: RecentBadSamples, stack: contextlib.ExitStack
    ) -> None:
        from stoker.server.daemon.metrics_endpoint import Endpoint  # noqa: PLC0415 - an HTTP server

        facts = {"address": self.address, "pid": os.getpid()}
        endpoint = Endpoint(settings, lambda: self._snapshot, bad_samples, facts)
        stack.callback(endpoint.close)
        self._endpoint, self.metrics_port = endpoint, endpoint.port
        logs.log("info", "metrics_listening", port=endpoint.port, page=bool(endpoint.page))

    def _reloads(self, stack: contextlib.ExitStack) -> dict[int, Callable[[], None]]:
        """Return what to call when a newer configuration has been read, by its descriptor."""
        if self._reloader is None:
            return {}
        stack.callback(self._reloader.close)
        return {self._reloader.fileno(): self._reloaded}

    def _lifelines(
        self, place: SocketFolder, config: Config, stack: contextlib.ExitStack
    ) -> Lifelines:
        """Listen for lifelines, on this host and for other hosts."""
        tcp = None
        if config.daemon.tcp:
            self._access = access_of(config.daemon)
            tcp = TcpListener(check_exposure(config.daemon), self._access)
            stack.callback(tcp.close)
        self._accept_limit = AcceptLimit(place, config.workers.count, self._now, tcp=tcp)
        up, down, may_accept = self._lifeline_up, self._lifeline_down, self._accept_limit.check
        carriers = None
        if tcp is not None:
            from stoker.server.daemon.remote.carriers import Carriers  # noqa: PLC0415 - 5 ms for ssl
            from stoker.server.daemon.remote.session_certificates import SessionCertificates  # noqa: PLC0415

            certificates = None if self._access is None else SessionCertificates()
            carriers = Carriers(
                tcp.carrier,
                up,
                down,
                self._sent,
                self._now,
                may_accept,
                self._guard.note,
                certificates,
            )
        return Lifelines(SideSocket(place, up, down, self._now, may_accept), carriers, tcp)

    def run(self) -> int:
        """Work until the core decides Exit; return the exit code."""
        if why := open_to_others(os.path.dirname(socket_path(self.address))):
            logs.log("warning", "socket_folder_open", address=self.address, folder=why)
        logs.log("info", "listening", address=self.address, pid=os.getpid())
        if self._access is not None:
            logs.log("info", "listening_tcp", address=self.tcp_address, **self._access.facts())
        elif self.tcp_address is not None:
            logs.log("warning", "listening_unprotected", address=self.tcp_address)
        self._service.ready()
        try:
            code = self._work()
        except StateInDoubtError as error:
            logs.log("error", "state_in_doubt", handler=str(error), code=EXIT_CODE)
            code = EXIT_CODE
        logs.log("info", "stopped", code=code)
        return code

    def _work(self) -> int:
        # The core has no clock: it needs the time before it gives workers deadlines.
        self._dispatcher.carry_out(self._core.handle(events.Tick(self._now())))
        self._dispatcher.carry_out(self._core.start())
        while self._dispatcher.exit_code is None:
            self._turn()
        return self._dispatcher.exit_code

    def stop(self) -> None:
        """Ask for a stop, as SIGTERM does; may be called in any thread."""
        self._stops.stop()

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
        busy = bool(self._events) or self._broker.readable() or self._broker.connections.behind
        ready = self._poller.wait(set(calls), 0.0 if busy else self._next_tick - self._now())
        self._turns.begin()
        for descriptor in ready:
            if not self._guard.run("descriptor", calls[descriptor]):
                self._guard.run_vital("abandon", self._abandon, descriptor)
        if self._broker.connections.behind:
            self._guard.run("descriptor", self._connected)
        if (busy or self._broker.fileno() in ready) and len(self._events) < BACKLOG:
            self._broker.drain()
        if self._now() >= self._next_tick:
            self._tick()
        while (
            self._events
            and self._dispatcher.exit_code is None
            and self._turns.elapsed_s() < BUDGET_S
        ):
            self._guard.run_vital("event", self._handle, self._events.popleft())
        self._dispatcher.post()
        took_s, cpu_s = self._turns.end()
        if took_s > TURN_LIMIT_S:
            self._note_slow_turn(took_s, cpu_s)

    def _handle(self, event: events.Event) -> None:
        self._dispatcher.carry_out(self._core.handle(event))

    def _abandon(self, descriptor: int) -> None:
        """End the connection or process behind a descriptor whose handler raised."""
        if not self._side.abandon(descriptor):
            self._supervisor.abandon(descriptor)

    def _failed(self, token: bytes) -> None:
        """End a session whose message could not be handled."""
        self._dispatcher.refuse(token, session_failed())

    def _calls(self) -> dict[int, Callable[[], None]]:
        return {**self._lasting_calls, **self._side.descriptors(), **self._supervisor.descriptors()}

    def _connected(self) -> None:
        """Note which connections came and went."""
        self._broker.connections.drain()
        self._accept_limit.check()

    def _tick(self) -> None:
        now = self._now()
        self._next_tick = now + TICK_S
        for due in (
            self._broker.connections.tick, self._accept_limit.check, self._side.tick,
            self._end_removed, self._supervisor.tick, self._publish,
        ):  # fmt: skip
            self._guard.run("tick", due)
        self._events.append(events.Tick(now))

    def _end_removed(self) -> None:
        """End the sessions of clients whose keys were removed."""
        if self._access is not None:
            for token in self._broker.with_other_keys(self._access.allows):
                self._dispatcher.refuse(token, self._access.removed())

    def _publish(self) -> None:
        self._snapshot = self._take_snapshot()
        if self._endpoint is not None:
            self._endpoint.add(self._snapshot)
        self._service.tick(self._now(), self._snapshot.counters, self._snapshot.unready)

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

    def _hello(self, peer: bytes, hello: messages.Hello, process: str, key: str) -> None:
        name = None
        if self._access is not None and key:
            self._side.check_certificate(hello.certificate)
            name = self._access.name_of(bytes.fromhex(key))
        client = self._peers.of(hello, process, name)
        if name is not None:
            logs.log("info", "client_greeted", **client.facts(), key=name, address=process)
        token = secrets.token_bytes(16)
        self._events.append(events.Greeted(self._now(), peer, token, hello, process, client))

    def _received(self, token: bytes, records: tuple[messages.ClientRecord, ...]) -> None:
        if self._side.is_remote(token):  # what was sent is released by `_sent` alone
            records = tuple(r for r in records if not isinstance(r, messages.Release))
        self._events.append(events.Received(self._now(), token, records))

    def _sent(self, token: bytes, slots: list[tuple[int, int]]) -> None:
        self._events.append(events.Received(self._now(), token, (messages.Release(slots),)))

    def _lifeline_up(self, token: bytes) -> None:
        self._side.attached(token)
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
        for number in self._stops.read():
            if number == signal.SIGHUP:
                self._reload()
                continue
            self._service.stopping()
            self._stops_asked += 1
            at_once = self._stops_asked > 1
            self._snapshot = self._take_snapshot()  # not ready any more, as of now
            self._events.append(events.StopAsked(self._now(), at_once))
            logs.log("info", "stop_asked", signal=number.name, at_once=at_once)

    def _reload(self) -> None:
        if self._access is not None:
            self._access.reread()
        if self._reloader is not None:
            self._reloader.begin()

    def _reloaded(self) -> None:
        assert self._reloader is not None  # its descriptor was polled
        config = self._reloader.collect()
        if config is not None:
            names = config.datasets, config.pipelines
            self._events.append(events.NamesChanged(self._now(), *names))

    # ---------------------------------------------------------------- helpers

    def _completed(self, record: messages.DaemonRecord) -> messages.DaemonRecord:
        if isinstance(record, messages.Status):
            counters = {**record.counters, **self._own_counters()}
            unready = self._readiness.unready(bool(self._stops_asked), counters)
            return msgspec.structs.replace(
                record,
                counters=counters,
                unready=unready,
                pid=os.getpid(),
                stages=self._core.stage_times(),
                workers=self._workers(),
                page="" if self._endpoint is None else self._endpoint.page,
            )
        return record

    def _take_snapshot(self) -> Snapshot:
        counters = {**self._core.counters(), **self._own_counters()}
        unready = self._readiness.unready(bool(self._stops_asked), counters)
        now = self._now()
        watched = self._endpoint is not None and self._endpoint.watched(now)
        return Snapshot(
            now,
            unready,
            counters,
            self._turns.copy(),
            self._core.stage_times(),
            self._core.sessions(MOST_SESSIONS) if watched else (),
            self._workers(),
            self._core.announced(MOST_SESSIONS),
        )

    def _workers(self) -> list[messages.WorkerStatus]:
        return self._core.workers(self._supervisor.seen(), self._now())

    def _own_counters(self) -> dict[str, int | float]:
        return {
            "loop_turns_total": sum(self._turns.counts),
            "loop_slow_turns_total": self._turns.slow,
            "loop_turn_max_seconds": self._turns.max_s,
            "loop_turn_max_cpu_seconds": self._turns.max_cpu_s,
            "memory_granted_bytes": self._reserver.granted_bytes,
            "unexpected_errors_total": self._guard.errors,
            "refused_messages_total": self._broker.refused_messages,
            "refused_connections_total": self._side.refused_connections,
            "descriptors": open_count(),
            "accept_pauses_total": self._accept_limit.pauses,
        }


def _quarantine(folder: str, stack: contextlib.ExitStack) -> list[QuarantineFiles]:
    """Return the writer of bad samples, which the stack closes; none without a folder."""
    if not folder:
        return []
    return [stack.enter_context(contextlib.closing(QuarantineFiles(Path(folder))))]


def _nothing() -> None:
    """Do nothing."""
