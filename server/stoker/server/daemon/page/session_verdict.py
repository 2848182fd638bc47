"""The verdict on a session, from what the daemon knows of it over the last seconds.

It knows when the client had no batch left to take. The client may have computed meanwhile, so this
is a bound on what it waited; its own verdict, `Loader.verdict()`, is exact.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from stoker.protocol.busy_workers import BUSY, stages_of, what_they_do
from stoker.protocol.messages import PRIVATE_PIPELINE, SessionStatus, StageTimes

NEGLIGIBLE: Final = 0.05
"""A session that waits for a smaller part of the time is bound by its own work."""
LEAST_S: Final = 1.0
"""A shorter time says nothing."""
_WAITS_FOR: Final = {
    "greeted": "it has no lifeline yet",
    "attached": "it has opened no stream",
    "opening": "its pipeline is built, or memory is reserved",
}


class SessionVerdict(NamedTuple):
    """The verdict on a session.

    Attributes:
        bound: "data", "compute", or "none": there is nothing to judge.
        text: what was seen, and why.
        advice: what to change; or empty.
    """

    bound: str
    text: str
    advice: str = ""


class Workers(NamedTuple):
    """The work of the workers over the last seconds.

    Attributes:
        busy: the part of their time in which they worked, from 0 to 1.
        times: of the stages of all rows, since the start.
        counters: of the daemon.
    """

    busy: float
    times: Sequence[StageTimes]
    counters: Mapping[str, float]


def session_verdict(
    now: SessionStatus, before: SessionStatus | None, passed_s: float, workers: Workers
) -> SessionVerdict:
    """Return the verdict on a session.

    Args:
        now: its status.
        before: its status in the same stream some seconds ago; None: no page was open then.
        passed_s: seconds between the two.
        workers: what they did between the two.
    """
    if now.state != "open":
        return SessionVerdict("none", _WAITS_FOR[now.state])
    if before is None or passed_s < LEAST_S:
        return SessionVerdict("none", "looking for a moment")
    waited = min(max(now.waited_s - before.waited_s, 0.0) / passed_s, 1.0)
    over = f"of the last {passed_s:.0f} s"
    if now.announced == before.announced and waited == 0 and not now.untaken:
        return SessionVerdict("none", f"it asked for no batch in the last {passed_s:.0f} s")
    if waited < NEGLIGIBLE:
        advice = "A faster loader is not worth it: only a faster step makes the training faster"
        text = f"batches were ready for it in {100 * (1 - waited):.0f} % {over}"
        return SessionVerdict("compute", text, advice)
    text = f"it had no batch to take in {100 * waited:.0f} % {over}"
    where, advice = _cause(now, workers)
    return SessionVerdict("data", f"{text}. {where}", advice)


def _cause(session: SessionStatus, workers: Workers) -> tuple[str, str]:
    """Return what a session waited for, and what to change."""
    if workers.busy < BUSY:
        share = f"Workers are {100 * workers.busy:.0f} % busy"
        return f"{share}: they wait for slots, for clients, or for storage", "Give more prefetch="
    rows, stages = stages_of(workers.times, {session.dataset}, {session.pipeline, PRIVATE_PIPELINE})
    if not rows:  # a mixture, or a stream whose rows were not timed
        stages = [stage for one in workers.times for stage in one.stages]
        rows = sum(one.rows for one in workers.times)
    if not rows:
        share = f"Workers are {100 * workers.busy:.0f} % busy"
        return share, "No row of it was timed: see metrics.stage_times"
    return what_they_do(workers.busy, rows, stages, workers.counters)
