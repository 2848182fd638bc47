"""What STATUS says about a worker: what it does by its own page, and for whom by its claims."""

from collections.abc import Mapping
from typing import Final

import msgspec

from stoker.protocol.messages import WorkerDoes, WorkerStatus
from stoker.server.state.clients import harmless
from stoker.server.state.groups.group import Group
from stoker.server.state.session_state import Session
from stoker.server.state.workers import WorkerState


class Seen(msgspec.Struct, frozen=True):
    """What the daemon sees of the process of a worker.

    Attributes:
        pid: its process; 0: it has none yet.
        state: what it does by its own page.
        op: of an op its name, with the file and line of its call; else empty.
        claim: the chunk that it computes; None: none.
        row: the row of the global batch that it computes; None: none, or many at a time.
        sample: the sample that it reads for the row; None: none.
        since: since when it has been seen at this very place, monotonic seconds; None: unknown.
        cpu: cores that it used over the last second.
    """

    pid: int = 0
    state: WorkerDoes = "idle"
    op: str = ""
    claim: int | None = None
    row: int | None = None
    sample: int | None = None
    since: float | None = None
    cpu: float = 0.0


UNSEEN: Final = Seen()


def worker_status(
    worker: WorkerState, seen: Seen, sessions: Mapping[bytes, Session], now: float
) -> WorkerStatus:
    """Return the description of a worker; constant cost."""
    does = _does(worker, seen)
    since = seen.since if does == seen.state else _began(worker)
    claim = worker.claims.get(seen.claim) if seen.claim is not None else None
    if claim is None and does not in {"starting", "idle"}:
        claim = worker.head
    batch = None if claim is None else claim.batch
    group = None if batch is None else batch.group
    reader = None if group is None else _first(group, sessions)
    return WorkerStatus(
        worker=worker.number,
        pid=seen.pid,
        state=does,
        op=harmless(seen.op) if does == "op" else "",
        state_s=max(now - (worker.started_at if since is None else since), 0.0),
        chunk_s=max(now - worker.head_since, 0.0) if worker.claims else 0.0,
        cpu=seen.cpu,
        dataset="" if reader is None else reader.dataset,
        pipeline="" if reader is None else reader.pipeline,
        client="" if reader is None else reader.client.name,
        sessions=0 if group is None else len(group.members),
        stream="" if group is None else group.stream.stream_id,
        group="" if group is None else harmless(group.name),
        rank=0 if group is None else group.record.rank,
        epoch=0 if batch is None else batch.epoch,
        step=0 if batch is None else batch.step,
        row=seen.row if batch is not None else None,
        sample=seen.sample if batch is not None else None,
        chunks=worker.chunks,
        age_s=now - worker.started_at,
    )


def _does(worker: WorkerState, seen: Seen) -> WorkerDoes:
    if worker.killed_at is not None:
        return "ending"
    if not worker.up:
        return "starting"
    return "compiling" if worker.compiling_at is not None else seen.state


def _began(worker: WorkerState) -> float:
    """Return since when a worker does what the daemon knows without its page."""
    if worker.killed_at is not None:
        return worker.killed_at
    return worker.started_at if not worker.up else worker.head_since


def _first(group: Group, sessions: Mapping[bytes, Session]) -> Session | None:
    return next((sessions[token] for token in group.members if token in sessions), None)
