"""The verdict on a loop: what bounds it, by how much, where, and what to change. No I/O.

What the loop waited is measured in the client. Why it waited follows from the daemon's STATUS: how
long a row takes in each stage, and so how busy the workers are if they make so many rows a second.
"""

import dataclasses
from collections.abc import Collection, Sequence

from stoker.client.loop_pace import LoopPace
from stoker.protocol.messages import PRIVATE_PIPELINE, StageSum, StageTimes, Status

NEGLIGIBLE = 0.05
"""A smaller part of the loop is not worth an effort."""
BUSY = 0.7
"""Workers that are less busy are not what the loop waits for."""


@dataclasses.dataclass(frozen=True)
class LoopVerdict:
    """What bounds a loop; as text, one line.

    Attributes:
        bound: "data", "compute", or "unknown" before there are two batches.
        waited: the part of the loop that waited for batches, from 0 to 1; a perfect loader would
            save so much, not more.
        batches: that the loop had; the first one of an epoch is left out.
        where: what it waited for; empty unless the loop is data-bound.
        advice: what to change.
    """

    bound: str
    waited: float
    batches: int
    where: str
    advice: str

    def __str__(self) -> str:
        if self.bound == "unknown":
            return f"no verdict yet: {self.advice}"
        share = f"{100 * self.waited:.0f} % of the loop waited"
        parts = [f"{share} ({self.batches} batches)", self.where, self.advice]
        return f"{self.bound}-bound: {'. '.join(part for part in parts if part)}"


@dataclasses.dataclass(frozen=True)
class StreamFacts:
    """What is known of a loader's stream.

    Attributes:
        datasets: its names; an empty one is the only dataset of the daemon.
        pipelines: its names; an empty one is a pipeline that the loader sent.
        ranks: how many ranks read the stream.
        is_remote: whether batches come over a network.
    """

    datasets: Collection[str]
    pipelines: Collection[str]
    ranks: int
    is_remote: bool


def judge(pace: LoopPace, facts: StreamFacts, status: Status | None) -> LoopVerdict:
    """Return the verdict on a loop.

    Args:
        pace: of the loop.
        facts: of the loader.
        status: of its daemon; None: there are several, or it gave none.
    """
    if not pace.batches or pace.loop_s <= 0:
        return LoopVerdict("unknown", 0.0, 0, "", "it takes two batches of an epoch")
    waited = min(pace.next_s / pace.loop_s, 1.0)
    if waited < NEGLIGIBLE:
        advice = "A faster loader is not worth it: only a faster step makes the loop faster"
        return LoopVerdict("compute", waited, pace.batches, "", advice)
    where, advice = _cause(pace, facts, status)
    return LoopVerdict("data", waited, pace.batches, where, advice)


def _cause(pace: LoopPace, facts: StreamFacts, status: Status | None) -> tuple[str, str]:
    """Return what a loop waited for, and what to change."""
    if pace.waited_s < pace.next_s / 2:
        return (
            f"Batches had arrived: {1000 * pace.next_s / pace.batches:.1f} ms a batch went into"
            " copying them to the device",
            "Let the pipeline give uint8, and normalize on the device",
        )
    if status is None:
        return "", "Ask each daemon: stoker status"
    rows, stages = _row_of(status.stages, facts)
    if not rows:
        return "", "The daemon has timed no row of it: see metrics.stage_times"
    row_s = sum(stage.wall_s for stage in stages) / rows
    workers = int(status.counters.get("workers_up", 0)) or 1
    busy = min(facts.ranks * pace.rows / pace.loop_s * row_s / workers, 1.0)
    share = f"Workers are {100 * busy:.0f} % busy"
    if busy < BUSY:
        if facts.is_remote:
            return f"{share}: it waits for the network", "Use a daemon on this host, or send less"
        advice = "Give more prefetch=, or look at other sessions with stoker status"
        return f"{share}: they wait for slots, for other sessions, or for storage", advice
    return _in_workers(share, stages, rows, status)


def _in_workers(
    share: str, stages: Sequence[StageSum], rows: int, status: Status
) -> tuple[str, str]:
    """Return what busy workers do."""
    row_s, cpu_s = (sum(getattr(s, name) for s in stages) / rows for name in ("wall_s", "cpu_s"))
    share += f" at {100 * cpu_s / row_s:.0f} % CPU"
    top = max(stages, key=lambda stage: stage.wall_s)
    name = f"op {top.op}" if top.op else top.stage
    of_row = f"{name}, {1000 * top.wall_s / rows:.1f} of {1000 * row_s:.1f} ms a row"
    counters = status.counters
    queued = counters.get("worker_queued_seconds_total", 0) / max(
        counters.get("worker_seconds_total", 0), 1e-9
    )
    if queued > 1 / 3:
        return (
            f"{share}: they wait for a processor {100 * queued:.0f} % of the time, most in "
            f"{of_row}",
            "Other processes need the same cores: use fewer workers than cores, or more cores",
        )
    if top.cpu_s < top.wall_s / 2:
        advice = "Use more workers, which need no more cores, or wait less there"
        if top.stage == "read":
            advice = "Use faster storage, or more workers, which need no more cores"
        return f"{share}: they wait in {of_row}", advice
    advice = "Use more workers on more cores, or make that op cheaper"
    if top.stage == "decode":
        advice = "Use more workers on more cores, or pack smaller images"
    return f"{share}: they compute, most in {of_row}", advice


def _row_of(times: Sequence[StageTimes], facts: StreamFacts) -> tuple[int, list[StageSum]]:
    """Return how many rows of a stream were timed, and their stages."""
    pipelines = {name or PRIVATE_PIPELINE for name in facts.pipelines}
    of_it = [
        one
        for one in times
        if one.pipeline in pipelines and (one.dataset in facts.datasets or "" in facts.datasets)
    ]
    return sum(one.rows for one in of_it), [stage for one in of_it for stage in one.stages]
