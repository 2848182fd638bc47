"""A plot of throughput over workers. Needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.server.inspect.bench.rates import Rate
from stoker.server.inspect.figures import make_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(stoker: Sequence[Rate], torch: Sequence[Rate], per_worker: float) -> Figure:
    """Return a figure of rates over workers, and the line of workers times one worker's code.

    Args:
        stoker: through daemon and client, in the order of workers.
        torch: of a DataLoader; may be empty.
        per_worker: rows per second of one worker's code without a daemon.
    """
    figure = make_figure(6.4, 4.0)
    axes = figure.add_subplot()
    most = max(rate.workers for rate in (*stoker, *torch))
    axes.plot([0, most], [0, most * per_worker], color="0.8", label="one worker's code, times n")
    for name, rates in (("Stoker", stoker), ("DataLoader", torch)):
        if rates:
            rows_per_s = [rate.rows_per_s for rate in rates]
            axes.plot([rate.workers for rate in rates], rows_per_s, marker="o", label=name)
    axes.set_xticks(sorted({rate.workers for rate in (*stoker, *torch)}))
    axes.set_xlabel("workers")
    axes.set_ylabel("rows per second")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color="0.9")
    axes.legend()
    return figure
