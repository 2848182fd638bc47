"""The verdict on a loop: what bounds it, by how much, where, and what to change. No I/O.

The client measures the waits of the loop. Why it waited follows from the daemon's STATUS: how
long a row takes in each stage, and so how busy the workers are if they make so many rows a second.
"""

import dataclasses
from collections.abc import Collection

from stoker.client.loop_pace import LoopPace
from stoker.protocol.busy_workers import BUSY, stages_of, what_they_do
from stoker.protocol.messages import Status

NEGLIGIBLE = 0.05
"""A smaller part of the loop is not worth an effort."""


@dataclasses.dataclass(frozen=True)
class LoopVerdict:
    """The verdict on a loop; as text, one line.

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
    """The facts about a loader's stream.

    Attributes:
        datasets: its names; an empty one is the only dataset of the daemon.
        pipelines: its names; an empty one is a pipeline that the loader sent.
        ranks: how many ranks read the stream.
        is_remote: whether batches come over a network.
        is_copied: whether they are copied to a CUDA device.
        has_modules: whether `on_device` changes them.
        is_verified: whether they are compared with digests.
    """

    datasets: Collection[str]
    pipelines: Collection[str]
    ranks: int
    is_remote: bool
    is_copied: bool = False
    has_modules: bool = False
    is_verified: bool = False


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


def _work_of_the_client(facts: StreamFacts) -> tuple[str, str]:
    """Return what `next()` does with a batch that has arrived, and how it takes less."""
    if facts.is_copied:
        return (
            "copying them to the device",
            "Let the pipeline give uint8, and normalize on the device",
        )
    if facts.has_modules:
        return "the modules of on_device", "Let the workers do it, by ops of the pipeline"
    if facts.is_verified:
        return "comparing them with their digests", "Leave out verify=True to save that"
    return (
        "taking them over",
        "Larger batches take less for each row; keep fewer if loader.statistics().copied grows",
    )


def _cause(pace: LoopPace, facts: StreamFacts, status: Status | None) -> tuple[str, str]:
    """Return what a loop waited for, and what to change."""
    if pace.waited_s < pace.next_s / 2:
        work, advice = _work_of_the_client(facts)
        each_ms = 1000 * pace.next_s / pace.batches
        return f"Batches had arrived: {each_ms:.1f} ms a batch went into {work}", advice
    if status is None:
        return "", "Ask each daemon: stoker status"
    rows, stages = stages_of(status.stages, facts.datasets, facts.pipelines)
    if not rows:
        return "", "The daemon has timed no row of it: see metrics.stage_times"
    row_s = sum(stage.wall_s for stage in stages) / rows
    workers = int(status.counters.get("workers_up", 0)) or 1
    busy = min(facts.ranks * pace.rows / pace.loop_s * row_s / workers, 1.0)
    if busy < BUSY:
        share = f"Workers are {100 * busy:.0f} % busy"
        if facts.is_remote:
            return f"{share}: it waits for the network", "Use a daemon on this host, or send less"
        advice = "Give more prefetch=, or look at other sessions with stoker status"
        return f"{share}: they wait for slots, for other sessions, or for storage", advice
    return what_they_do(busy, rows, stages, status.counters)
