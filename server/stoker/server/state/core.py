"""The daemon's decisions: `handle(event) -> [instruction]`.

Used by one thread, the daemon's loop. Nothing in here waits, reads a clock or does I/O, so the same
events always give the same instructions. The cost of an event does not depend on the number of
rows, and the end of a chunk has constant cost. After every event `assign` gives out the open work.
"""

import dataclasses
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from stoker.protocol.messages import MAX_WORKERS, SessionStatus, StageTimes, WorkerStatus
from stoker.server.state import metrics
from stoker.server.state.budget import Budget
from stoker.server.state.builds import Builds
from stoker.server.state.core_context import CoreContext
from stoker.server.state.core_instructions import Instruction
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
    Greeted,
    KernelsUnstored,
    LifelineDown,
    LifelineUp,
    NamesChanged,
    Recalled,
    Received,
    ReplayEnded,
    ReplayFailed,
    SlabRefused,
    SlabReserved,
    StopAsked,
    Tick,
    WorkerBusy,
    WorkerDown,
    WorkerUp,
)
from stoker.server.state.groups.group_delivery import Deliveries
from stoker.server.state.own_decoder import OwnDecoder
from stoker.server.state.replays import Replays
from stoker.server.state.scheduler import Scheduler
from stoker.server.state.served_streams import Streams
from stoker.server.state.sessions import Sessions
from stoker.server.state.settings import Settings
from stoker.server.state.stopping import Stopping
from stoker.server.state.stream_opening import Openings
from stoker.server.state.worker_faults import Faults
from stoker.server.state.worker_status import UNSEEN, Seen, worker_status
from stoker.server.state.workers import Pool


class Core:
    """The pure state of a daemon."""

    def __init__(self, settings: Settings) -> None:
        self._context = context = CoreContext(settings)
        self._begun = False
        self._budget = Budget(
            settings.memory_limit_bytes, settings.workers, settings.session_limit_bytes
        )
        self._builds = Builds(context)
        self._streams = Streams(settings)
        self._pool = Pool(context)
        self._groups = Deliveries(context, self._streams, self._budget)
        self._openings = Openings(context, self._builds, self._streams, self._groups, self._budget)
        self._replays = Replays(context)
        self._sessions = Sessions(
            context, self._openings, self._groups, self._pool, self._replays, self.counters
        )
        self._scheduler = Scheduler(context, self._groups, self._pool)
        self._faults = Faults(context, self._groups, self._pool, self._scheduler, self._builds)
        self._decoder = OwnDecoder(context, self._pool, self._builds)
        self._stopping = Stopping(context, self._sessions, self._scheduler, self._pool)
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            Greeted: self._sessions.greeted,
            Received: self._sessions.received,
            LifelineUp: lambda event: self._sessions.lifeline_up(event.token),
            LifelineDown: lambda event: self._sessions.end(
                event.token, "lifeline down", reads_on=event.by_daemon
            ),
            Built: lambda event: self._openings.built(event.result),
            BuildFailed: self._openings.build_failed,
            BuildDied: self._openings.build_died,
            BuildProgress: self._builds.progress,
            ReplayEnded: self._replays.ended,
            ReplayFailed: self._replays.failed,
            DecoderReady: lambda _: self._decoder.ready(),
            DecoderFailed: self._decoder.failed,
            DecoderProgress: lambda _: self._decoder.progress(),
            DecoderMissed: self._decoder.missed,
            SlabReserved: lambda event: self._openings.reserved(event.slab),
            SlabRefused: self._refused,
            WorkerUp: self._worker_up,
            WorkerDown: self._faults.worker_down,
            KernelsUnstored: lambda event: self._context.note_unstored(event.reason),
            WorkerBusy: lambda event: self._pool.is_busy(event.worker, event.compiling),
            ChunkDone: self._chunk_done,
            ChunkFailed: self._faults.failed,
            Recalled: lambda event: self._scheduler.recalled(event.worker, event.claim),
            Tick: self._tick,
            NamesChanged: self._names_changed,
            StopAsked: self._stopping.ask,
        }

    def start(self) -> list[Instruction]:
        """Return the first instructions, which start the workers."""
        self._pool.start()
        return self._flush()

    def handle(self, event: Event) -> list[Instruction]:
        """Return the instructions that follow from an event; none after Exit."""
        if self._stopping.exited:
            return []
        if not self._begun:
            self._begin(event.now)
        self._context.now = max(self._context.now, event.now)
        self._handlers[type(event)](event)
        self._scheduler.assign()
        self._stopping.check()
        return self._flush()

    def client_facts(self, token: bytes) -> dict[str, object]:
        """Return what a log line says about the client of a session; empty if there is none."""
        return self._sessions.facts(token)

    def rest_s(self) -> float:
        """Return for how many seconds no process needs an answer; see `Scheduler.rest_s`."""
        return self._scheduler.rest_s()

    def counters(self) -> dict[str, int | float]:
        """Return all counters, by metric name without the prefix `stoker_`."""
        now: dict[str, int | float] = {
            "sessions": len(self._sessions.by_token),
            "sessions_limit": self._context.settings.max_sessions,
            "streams": len(self._streams),
            "groups": len(self._groups.by_number),
            "builds": len(self._builds),
            "replays": len(self._replays),
            "workers": len(self._pool.workers),
            "workers_wanted": self._pool.wanted,
            "workers_up": self._pool.up,
            "claims": self._scheduler.claims,
            "own_decoder": int(self._decoder.serves),
            "memory_used_bytes": self._budget.used_bytes,
            "memory_working_bytes": self._budget.working_bytes,
            "memory_limit_bytes": self._budget.limit_bytes,
        }
        groups = self._groups.by_number.values()
        return metrics.totals(self._context.counts) | now | metrics.depths(groups)

    def sessions(self, most: int) -> list[SessionStatus]:
        """Return the descriptions of the first sessions, in the order of their HELLO."""
        return self._sessions.statuses(most)

    def announced(self, most: int) -> list[tuple[int, int]]:
        """Return the numbers of these sessions, and how many batches were announced to each."""
        return self._sessions.announced(most)

    def stage_times(self) -> list[StageTimes]:
        """Return where the time of rows went since the start, for each dataset and pipeline."""
        return self._scheduler.stages.times()

    def workers(self, seen: Mapping[int, Seen], now: float) -> list[WorkerStatus]:
        """Return what workers do.

        Args:
            seen: what the daemon sees of their processes, by number.
            now: when.
        """
        return [
            worker_status(worker, seen.get(number, UNSEEN), self._sessions.by_token, now)
            for number, worker in islice(self._pool.workers.items(), MAX_WORKERS)
        ]

    def _refused(self, event: SlabRefused) -> None:
        token = self._openings.refused(event.slab, event.reason)
        if token:
            self._sessions.end(token, "the kernel refused memory for its slots", reads_on=True)

    def _worker_up(self, event: WorkerUp) -> None:
        self._pool.came_up(event.worker)
        self._decoder.worker_up(event.worker)

    def _chunk_done(self, event: ChunkDone) -> None:
        self._scheduler.done(event.worker, event.done)
        if event.done.wanted_form:
            self._decoder.want(event.done.wanted_form)

    def _names_changed(self, event: NamesChanged) -> None:
        self._context.settings = dataclasses.replace(
            self._context.settings, datasets=event.datasets, pipelines=event.pipelines
        )

    def _begin(self, now: float) -> None:
        """Set the time from the first event: anything started before it counts from then."""
        self._begun = True
        self._pool.begin(now)
        self._stopping.begin(now)

    def _tick(self, _: Tick) -> None:
        self._sessions.tick()
        self._replays.tick()
        self._builds.tick()
        self._openings.tick()
        self._faults.tick()
        self._pool.restart_due()
        self._decoder.tick()

    def _flush(self) -> list[Instruction]:
        out, self._context.out = self._context.out, []
        return out
