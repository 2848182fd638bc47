"""What busy workers do, by the times of their stages, and what to change. Pure functions.

The client judges its own loop with it, and the daemon the sessions that its page shows.
"""

from collections.abc import Collection, Mapping, Sequence

from stoker.protocol.messages import PRIVATE_PIPELINE, StageSum, StageTimes

BUSY = 0.7
"""Workers that are less busy are not what a loop waits for."""
CROWDED = 1 / 3
"""Workers that wait for a processor for a larger part of their time have too few cores."""


def stages_of(
    times: Sequence[StageTimes], datasets: Collection[str], pipelines: Collection[str]
) -> tuple[int, list[StageSum]]:
    """Return how many rows of a stream were timed, and their stages.

    Args:
        times: of all datasets and pipelines.
        datasets: the names of its datasets; an empty one is the only dataset of the daemon.
        pipelines: the names of its pipelines; an empty one is a pipeline that a client sent.
    """
    named = {name or PRIVATE_PIPELINE for name in pipelines}
    of_it = [
        one
        for one in times
        if one.pipeline in named and (one.dataset in datasets or "" in datasets)
    ]
    return sum(one.rows for one in of_it), [stage for one in of_it for stage in one.stages]


def what_they_do(
    busy: float, rows: int, stages: Sequence[StageSum], counters: Mapping[str, float]
) -> tuple[str, str]:
    """Return what workers do that are `BUSY`, and what to change.

    Args:
        busy: the part of their time in which they work, from 0 to 1.
        rows: rows of a stream that were timed; at least 1.
        stages: of these rows.
        counters: of the daemon.
    """
    row_s, cpu_s = (sum(getattr(s, name) for s in stages) / rows for name in ("wall_s", "cpu_s"))
    share = f"Workers are {100 * busy:.0f} % busy at {100 * cpu_s / row_s:.0f} % CPU"
    top = max(stages, key=lambda stage: stage.wall_s)
    name = f"op {top.op}" if top.op else top.stage
    of_row = f"{name}, {1000 * top.wall_s / rows:.1f} of {1000 * row_s:.1f} ms a row"
    queued = counters.get("worker_queued_seconds_total", 0) / max(
        counters.get("worker_seconds_total", 0), 1e-9
    )
    if queued > CROWDED:
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
