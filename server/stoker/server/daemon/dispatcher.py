"""Carries out the core's instructions: each becomes a call of a socket, a process or the reserver.

Runs in the daemon's thread. A new instruction needs its record in `core_instructions` and one line
in `Dispatcher`. Records for one session are collected and sent as one message; an instruction that
is not in `_BESIDE` first sends what was collected, so that the order of effects is the core's. An
instruction that raises ends only what it is for (`failure_event`).
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from stoker.protocol import messages
from stoker.protocol.errors import ResourceError, StokerError
from stoker.server.daemon.broker import Broker
from stoker.server.daemon.failure_events import FOR_A_WORKER, failure_event
from stoker.server.daemon.guard import Guard
from stoker.server.daemon.lifelines import Lifelines
from stoker.server.daemon.processes import Processes
from stoker.server.daemon.reserver import Reserver
from stoker.server.settings import logs
from stoker.server.state import core_instructions as ins
from stoker.server.state import events
from stoker.server.work.work_records import AddSlab, BadSample, CloseStream, DropSlab, UseDecoder

_BESIDE: Final = frozenset((ins.Send, ins.Assign, ins.Recall, ins.Log, ins.Quarantine))
"""Instructions that do not force collected records to be sent before them."""


class TakesBadSamples(Protocol):
    """Keeps or writes bad samples; never waits."""

    def add(self, dataset: str, bad: Sequence[BadSample]) -> None:
        """Take bad samples of the dataset with that fingerprint."""


class Dispatcher:
    """Carries out instructions.

    Attributes:
        exit_code: set by the core's last instruction; None until then.
    """

    def __init__(
        self,
        broker: Broker,
        side: Lifelines,
        reserver: Reserver,
        processes: Processes,
        bad_samples: Sequence[TakesBadSamples],
        emit: Callable[[events.Event], None],
        complete: Callable[[messages.DaemonRecord], messages.DaemonRecord],
        guard: Guard,
    ) -> None:
        """Take what instructions are carried out with.

        Args:
            broker: messages to sessions.
            side: lifelines and descriptors.
            reserver: memory.
            processes: workers, builders, replayers.
            bad_samples: take the bad samples that are found.
            emit: takes an event that an instruction causes.
            complete: adds the daemon's own facts to a record before it is sent.
            guard: of unexpected exceptions, with the daemon's clock.
        """
        self.exit_code: int | None = None
        self._broker = broker
        self._side = side
        self._reserver = reserver
        self._processes = processes
        self._bad_samples = bad_samples
        self._emit = emit
        self._complete = complete
        self._now = guard.now
        self._guard = guard
        self._outbox: dict[bytes, list[messages.DaemonRecord]] = {}
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self._do: dict[type, Callable[[Any], object]] = {
            ins.Send: self._send,
            ins.SendPeer: self._send_peer,
            ins.SendSlab: self._send_slab,
            ins.EndSession: self._end_session,
            ins.StartBuild: lambda do: processes.start_build(do.request),
            ins.EndBuild: lambda do: processes.end_build(do.build, do.reason),
            ins.StartReplay: lambda do: processes.start_replay(do.request),
            ins.SendReplay: self._send_replay,
            ins.DropReplay: lambda do: processes.drop_replay(do.replay),
            ins.CompileDecoder: lambda do: processes.compile_decoder(do.form),
            ins.EndDecoder: lambda do: processes.end_decoder(do.reason),
            ins.TellDecoder: lambda do: processes.send(do.worker, UseDecoder(do.form)),
            ins.ReserveSlab: self._reserve_slab,
            ins.GrowSlab: self._grow_slab,
            ins.ShrinkSlab: lambda do: reserver.shrink(do.slab, do.slots, do.slot_bytes),
            ins.FreeSlab: lambda do: reserver.free(do.slab),
            ins.Quarantine: self._quarantine,
            ins.StartWorker: lambda do: processes.start_worker(do.worker),
            ins.KillWorker: lambda do: processes.kill_worker(do.worker, do.reason),
            ins.TellStream: self._tell_stream,
            ins.ForgetStream: self._forget_stream,
            ins.Assign: self._assign,
            ins.Recall: lambda do: processes.recall(do.worker, do.claim),
            ins.Log: self._log,
            ins.Exit: self._exit,
        }

    def carry_out(self, todo: Sequence[ins.Instruction]) -> None:
        """Carry out instructions in order."""
        for instruction in todo:
            kind = type(instruction)
            if self._outbox and kind not in _BESIDE:
                self.post()  # earlier records are sent first
            if not self._guard.run("instruction", self._do[kind], instruction):
                self._failed(instruction)

    def _send(self, do: ins.Send) -> None:
        self._outbox.setdefault(do.token, []).extend(map(self._complete, do.records))

    def post(self) -> None:
        """Send the collected records, one message per session."""
        outbox, self._outbox = self._outbox, {}
        for token, records in outbox.items():
            if not self._guard.run("instruction", self._post, token, records):
                self._lose(token, "sending to it failed")

    def _post(self, token: bytes, records: list[messages.DaemonRecord]) -> None:
        left = self._side.carry(token, records)
        if left and not self._broker.send(token, left):
            self._lose(token, "it is gone or does not read its messages")

    def _send_peer(self, do: ins.SendPeer) -> None:
        records = do.records
        if do.token:
            self._side.expect(do.token, do.certificate)
            records = tuple(self._certified(record) for record in records)
        if not self._broker.send_peer(do.peer, records, do.token) and do.token:
            self._lose(do.token, "it went away before WELCOME")

    def _certified(self, record: messages.DaemonRecord) -> messages.DaemonRecord:
        if not isinstance(record, messages.Welcome):
            return record
        return msgspec.structs.replace(record, certificate=self._side.certificate)

    def _failed(self, do: ins.Instruction) -> None:
        """End what an instruction was for, after it raised."""
        if isinstance(do, ins.ReserveSlab):
            self._reserver.discard(do.slab)
        if isinstance(do, FOR_A_WORKER):
            # It may not write into a slot that is free; if it cannot be killed, nothing is certain.
            why = "the daemon failed while it handled this worker"
            self._guard.run_vital("kill", self._processes.kill_worker, do.worker, why)
        event = failure_event(do, self._now())
        if isinstance(event, events.LifelineDown):
            self._lose(event.token, "an instruction for it failed")
        elif event is not None:
            self._emit(event)
        if isinstance(do, ins.Exit):
            self._exit(do)

    def refuse(self, token: bytes, error: StokerError) -> None:
        """End a session that cannot go on; its client gets the error."""
        if not self._side.refuse(token, error):
            self._broker.send(token, [messages.Error(0, *error.to_record())])
        self._lose(token, error.message)

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

    def _send_replay(self, do: ins.SendReplay) -> None:
        descriptor = self._processes.take_replay(do.replay)
        if descriptor is None:
            return  # the session went away in this same turn
        record = messages.Replayed(do.request, do.size_bytes)
        sent = self._side.send_memory(do.token, record, descriptor)
        os.close(descriptor)
        if not sent:
            self._lose(do.token, "its lifeline is not up or not read")

    def _reserve_slab(self, do: ins.ReserveSlab) -> None:
        error = self._reserver.reserve(
            do.slab, do.size_bytes, capacity_bytes=do.capacity_bytes, needed_bytes=do.needed_bytes
        )
        self._note(do.slab, error)

    def _grow_slab(self, do: ins.GrowSlab) -> None:
        self._note(do.slab, self._reserver.grow(do.slab, do.slots, do.slot_bytes))

    def _note(self, slab: int, refusal: ResourceError | None) -> None:
        if refusal is not None:
            self._emit(events.SlabRefused(self._now(), slab, str(refusal.details["reason"])))

    def _tell_stream(self, do: ins.TellStream) -> None:
        slab = self._reserver[do.slab]
        self._processes.send(do.worker, AddSlab(do.slab, do.slab_bytes), slab.descriptor)
        self._processes.send(do.worker, do.stream)

    def _forget_stream(self, do: ins.ForgetStream) -> None:
        self._processes.send(do.worker, CloseStream(do.stream))
        self._processes.send(do.worker, DropSlab(do.slab))

    def _assign(self, do: ins.Assign) -> None:
        for work in do.work:
            self._processes.send(do.worker, work)

    def _quarantine(self, do: ins.Quarantine) -> None:
        for taker in self._bad_samples:
            taker.add(do.dataset, do.bad)

    def _log(self, do: ins.Log) -> None:
        facts = do.facts
        if do.limited:
            suppressed = self._log_limit.allow(do.event, self._now())
            if suppressed is None:
                return
            facts = {**facts, "suppressed": suppressed}
        logs.write(do.level, do.event, facts)

    def _lose(self, token: bytes, why: str) -> None:
        """End a session that cannot be reached: hang up its lifeline and notify the core."""
        logs.log("warning", "session_lost", **self._broker.facts_of(token), reason=why)
        self._side.hang_up(token)
        self._emit(events.LifelineDown(self._now(), token, by_daemon=True))

    def _exit(self, do: ins.Exit) -> None:
        self.exit_code = do.code
