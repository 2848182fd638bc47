"""A plot of rates: a panel for each workload, a bar for each contender. Needs matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, THEIRS = "#1f77b4", "#c4c4c4"


class Rates(Protocol):
    """A median, and the least and the greatest."""

    rate: float
    low: float
    high: float


def chart(panels: Sequence[tuple[str, Mapping[str, Rates]]]) -> Figure:
    """Return the figure.

    Args:
        panels: title, and the contenders of each; ours have Stoker's name or are plain loops.
    """
    counts = [len(rates) for _, rates in panels]
    figure = Figure(
        figsize=(9.2, sum(0.24 * count + 0.5 for count in counts)), layout="constrained"
    )
    places = figure.subplots(len(panels), height_ratios=counts, squeeze=False)[:, 0]
    for axes, (title, rates) in zip(places, panels, strict=True):
        draw(axes, title, sorted(rates.items(), key=lambda pair: pair[1].rate))
    return figure


def draw(axes: Axes, title: str, rates: Sequence[tuple[str, Rates]]) -> None:
    """Draw bars, each with a line from the least to the greatest rate."""
    bars = axes.barh(
        [name for name, _ in rates],
        [found.rate for _, found in rates],
        height=0.7,
        color=[OURS if "Stoker" in name or "plain loops" in name else THEIRS for name, _ in rates],
        xerr=(
            [found.rate - found.low for _, found in rates],
            [found.high - found.rate for _, found in rates],
        ),
    )
    axes.bar_label(bars, [f"{found.rate:,.0f}/s" for _, found in rates], padding=4)
    axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    axes.margins(x=0.12)
    axes.xaxis.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(left=False)


def save(figure: Figure, path: Path) -> None:
    """Write an SVG file; equal figures give equal bytes."""
    fixed = {"svg.hashsalt": "stoker", "svg.fonttype": "none"}
    with matplotlib.rc_context(fixed):
        figure.savefig(path, format="svg", metadata={"Date": None})
