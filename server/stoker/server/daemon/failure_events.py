"""Events that the core receives when carrying out one of its instructions raised an exception.

An instruction works for a session, a worker, a build, a replay or a slab. The core receives the
event of its failure, so that its state stays true.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stoker.protocol.errors import SampleError, TryAgainError
from stoker.server.state import core_instructions as ins
from stoker.server.state import events

_WHY = "the daemon failed while it {what}; its log has the traceback (unexpected_error)"


def _session_ended(do: Any, now: float) -> events.Event | None:
    return events.LifelineDown(now, do.token, by_daemon=True) if do.token else None


def _build_failed(do: Any, now: float) -> events.Event:
    number = do.request.build if isinstance(do, ins.StartBuild) else do.build
    why = TryAgainError(_WHY.format(what="started or ended the build"))
    return events.BuildFailed(now, number, *why.to_record())


def _replay_failed(do: ins.StartReplay, now: float) -> events.Event:
    why = SampleError(_WHY.format(what="started the replay"))
    return events.ReplayFailed(now, do.request.replay, *why.to_record())


def _refused(do: Any, now: float) -> events.Event:
    return events.SlabRefused(now, do.slab, _WHY.format(what="reserved memory"))


def _not_started(do: ins.StartWorker, now: float) -> events.Event:
    return events.WorkerDown(now, do.worker, _WHY.format(what="started it"), blame=False)


def _decoder_failed(_: Any, now: float) -> events.Event:
    return events.DecoderFailed(now, _WHY.format(what="started or ended its compiler"), died=True)


_AFTER: Mapping[type, Callable[[Any, float], events.Event | None]] = {
    ins.Send: _session_ended,
    ins.SendPeer: _session_ended,
    ins.SendSlab: _session_ended,
    ins.SendReplay: _session_ended,
    ins.EndSession: _session_ended,
    ins.StartBuild: _build_failed,
    ins.EndBuild: _build_failed,
    ins.StartReplay: _replay_failed,
    ins.CompileDecoder: _decoder_failed,
    ins.EndDecoder: _decoder_failed,
    ins.ReserveSlab: _refused,
    ins.GrowSlab: _refused,
    ins.StartWorker: _not_started,
}
FOR_A_WORKER: Final = (
    ins.StartWorker, ins.KillWorker, ins.TellDecoder, ins.TellStream, ins.ForgetStream, ins.Assign,
    ins.Recall,
)  # fmt: skip
"""Instructions for one worker. It is killed, if it runs; then its death is the event."""


def failure_event(do: ins.Instruction, now: float) -> events.Event | None:
    """Return the event that tells the core; None if nothing depends on the instruction."""
    tell = _AFTER.get(type(do))
    return None if tell is None else tell(do, now)
