"""Interprets the measurements: names the bottleneck, and the number of workers that suffices.

Pure functions of what was measured.
"""

import math
from dataclasses import dataclass

from stoker.server.inspect.bench.rates import Rate
from stoker.server.inspect.bench.row_stages import STAGES, Stages

ENOUGH = 0.95
"""Part of the best rate: the fewest workers that reach it saturate the host."""
STEP = 0.05
"""Least gain, as a part of one worker's rate, that justifies another worker."""
_ADVICE = {
    "read": "the storage or the page cache: a faster disk, more memory, or smaller files",
    "splice": "cutting crops out of JPEGs: pack with --no-grid if crops are nearly whole pictures",
    "decode": "decoding: pack smaller pictures, crop before anything else, or more workers",
    "ops": "the ops: put crops and resizes first, leave normalizing to the GPU, or more workers",
    "write": "memory bandwidth: ship uint8 and convert on the GPU",
    "deliver": "messages: larger batches",
}


@dataclass(frozen=True)
class Verdict:
    """The bottleneck, and the advice.

    Attributes:
        bottleneck: the stage that takes the largest part of a row, `deliver` included.
        share: that part, from 0 to 1.
        advice: what would help.
        saturating: least workers, of those tried, that reach 0.95 of the best rate; None if the
            most that were tried are needed for it and `estimated` says that more would do more.
        estimated: workers that would saturate the host, see `estimate`.
        for_target: workers that a rate would need, by the rate of one; None if none was asked.
    """

    bottleneck: str
    share: float
    advice: str
    saturating: int | None
    estimated: int
    for_target: int | None


def deliver_s(stages: Stages, rates: list[Rate]) -> float:
    """Return what daemon and client add to a row of one worker, in seconds, at least 0."""
    single = [rate for rate in rates if rate.workers == 1]
    if not single or not stages.rows_per_s:
        return 0.0
    return max(1 / single[0].rows_per_s - 1 / stages.rows_per_s, 0.0)


def estimate(stages: Stages, rates: list[Rate], cores: int) -> int:
    """Estimate how many workers saturate the host, from CPU seconds of a row.

    With w, c and d seconds of a worker, the client and the daemon, each one thread, rows cannot
    come faster than by min(cores / (w + c + d), 1 / c, 1 / d); w times that many workers make them.
    Memory bandwidth, storage, and cores that share their units are not in it.
    """
    worker_s = 1 / stages.rows_per_s
    client_s, daemon_s = min(r.client_s for r in rates), min(r.daemon_s for r in rates)
    row_s = max((worker_s + client_s + daemon_s) / cores, client_s, daemon_s)
    return max(1, math.ceil(worker_s / row_s - STEP))


def judge(stages: Stages, rates: list[Rate], target: float | None, cores: int) -> Verdict:
    """Judge what was measured.

    Args:
        stages: of a row.
        rates: through the daemon, at least one.
        target: rows per second that a training job eats, if that was said.
        cores: of this host.
    """
    spent = {stage: stages.seconds[stage] for stage in STAGES}
    spent["deliver"] = deliver_s(stages, rates)
    worst = max(spent, key=lambda stage: spent[stage])
    best = max(rate.rows_per_s for rate in rates)
    enough = [rate.workers for rate in rates if rate.rows_per_s >= ENOUGH * best]
    most, estimated = max(rate.workers for rate in rates), estimate(stages, rates, cores)
    each = max(rate.rows_per_s / rate.workers for rate in rates)
    return Verdict(
        bottleneck=worst,
        share=spent[worst] / (sum(spent.values()) or 1.0),
        advice=_ADVICE[worst],
        saturating=min(enough) if min(enough) < most or most >= estimated else None,
        estimated=estimated,
        for_target=None if target is None else math.ceil(target / each),
    )
