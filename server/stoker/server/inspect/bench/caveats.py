"""Why measurements do not support a verdict: the host was busy, or they contradict each other.

Pure functions of what was measured.
"""

from collections.abc import Sequence
from typing import Final

from stoker.server.inspect.bench.rates import Rate
from stoker.server.inspect.bench.row_stages import Stages

BUSY: Final = 0.1
"""Other processes may use this part of the processors that the benchmark may use."""
WAITED: Final = 0.1
"""A measuring process may wait for a processor during this part of the time."""
FACTOR: Final = 1.3
"""Two measurements of the same work may differ by this factor."""
BESIDE_S: Final = 2e-5
"""Seconds that finding and recording a row may take; they are in no stage."""


def caveats(
    stages: Stages, rates: Sequence[Rate], cores: int, host_cores: int | None = None
) -> list[str]:
    """Return the reasons against a verdict, as sentences.

    Args:
        stages: of a row.
        rates: through the daemon, in the order of workers.
        cores: processors that the benchmark may use.
        host_cores: processors of the host; None: the same.
    """
    return [
        *_busy(stages, rates, cores, host_cores or cores),
        *_of_stages(stages),
        *_of_rates(stages, rates, cores),
    ]


def _busy(stages: Stages, rates: Sequence[Rate], cores: int, host_cores: int) -> list[str]:
    found = []
    others = max([stages.others, *(rate.others for rate in rates)])
    if others + cores - host_cores > BUSY * cores:
        found.append(
            f"Other processes kept {others:.1f} of the {host_cores} processors of this host busy."
        )
    if stages.waited > WAITED:
        found.append(
            f"The stages were measured by a process that waited for a processor for"
            f" {stages.waited:.0%} of the time."
        )
    return found


def _of_stages(stages: Stages) -> list[str]:
    """Compare the stages with the rate; writing may be in both the ops and its own stage."""
    most_s = sum(stages.seconds.values())
    least_s, row_s = most_s - stages.seconds["write"], 1 / stages.rows_per_s
    if least_s / FACTOR <= row_s <= most_s * FACTOR + BESIDE_S:
        return []
    return [
        f"The stages of a row take {most_s * 1e6:,.0f} us, but a row takes one worker's code"
        f" {row_s * 1e6:,.0f} us."
    ]


def _of_rates(stages: Stages, rates: Sequence[Rate], cores: int) -> list[str]:
    found = []
    best: Rate | None = None
    for rate in rates:
        most = rate.workers * stages.rows_per_s
        if rate.rows_per_s > FACTOR * most:
            found.append(
                f"{_workers(rate)} delivered {rate.rows_per_s:,.0f} rows/s, more than the"
                f" {most:,.0f} that the code alone computes."
            )
        fewer = best is not None and FACTOR * rate.rows_per_s < best.rows_per_s
        if best is not None and fewer and rate.workers <= cores:
            found.append(
                f"{_workers(rate)} delivered {rate.rows_per_s:,.0f} rows/s, fewer than"
                f" {best.workers} ({best.rows_per_s:,.0f})."
            )
        if best is None or rate.rows_per_s > best.rows_per_s:
            best = rate
    return found


def _workers(rate: Rate) -> str:
    return "1 worker" if rate.workers == 1 else f"{rate.workers} workers"
