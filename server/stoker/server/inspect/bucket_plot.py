"""A plot of buckets: their shapes to scale, and the samples of each. Needs the extra `plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stoker.order.buckets.bucket_fit import Fit, LengthFit
from stoker.server.inspect.bucket_report import Report, ReportRow
from stoker.server.inspect.figures import make_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN: Final = 40
GOOD: Final = (70, 120, 180)
BAD: Final = (200, 70, 50)
WORST: Final = 0.2
"""Share of an image that is cut off, or of a batch that is padding, from which the color is BAD."""


def plot(report: Report) -> Figure:
    """Return the figure: shapes on the left, counts on the right, the fullest buckets first.

    Colors show the share of an image that is cut off on average, or the share of a batch of
    sequences that is padding. The mark in a bar is one batch. The outline of a bucket of sequences
    is as wide as the bucket is long, and as high as the share that is filled.
    """
    rows = report.fullest[:SHOWN]
    figure = make_figure(11.0, max(5.0, 1.0 + 0.2 * len(rows)))
    shapes, bars = figure.subplots(1, 2, width_ratios=(5, 6))
    _draw_shapes(shapes, rows, of_images=report.of_images)
    _draw_bars(bars, rows)
    what = "images" if report.of_images else "sequences"
    more = f", the {SHOWN} fullest shown" if len(report.rows) > len(rows) else ""
    figure.suptitle(f"{len(report.rows)} buckets of {report.samples:,} {what}{more}")
    return figure


def _draw_shapes(axes: Axes, rows: tuple[ReportRow, ...], *, of_images: bool) -> None:
    """Draw the outlines from one corner, the emptiest first: the fullest cover the others."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - only the extra `plots` has it

    for row in reversed(rows):
        size = _size(row)
        axes.add_patch(Rectangle((0, 0), *size, fill=False, linewidth=2, edgecolor=_color(row)))
    axes.autoscale_view()
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("width" if of_images else "length")
    axes.set_ylabel("height" if of_images else "share that is filled")
    if of_images:
        axes.set_aspect("equal")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bars(axes: Axes, rows: tuple[ReportRow, ...]) -> None:
    names = [row.bucket.name for row in rows]
    counts = [row.bucket.samples for row in rows]
    axes.barh(names, counts, height=0.6, color=[_color(row) for row in rows])
    batches = [row.bucket.positions for row in rows]
    places = range(len(rows))
    axes.vlines(
        batches, [n - 0.4 for n in places], [n + 0.4 for n in places], "0.2", label="one batch"
    )
    for place, row in enumerate(rows):
        end = max(row.bucket.samples, row.bucket.positions)
        text = f"{row.bucket.samples:,}, {_share(row):.1%} {_of(row)}"
        axes.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center")
    axes.legend(loc="lower right")
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set_xlabel("samples")
    axes.spines[["top", "right"]].set_visible(False)


def _size(row: ReportRow) -> tuple[float, float]:
    bucket = row.bucket
    if isinstance(row.fit, LengthFit):
        return bucket.width, 1 - row.fit.mean_padding
    return bucket.width, bucket.height


def _color(row: ReportRow) -> tuple[float, float, float]:
    part = min(_share(row) / WORST, 1.0)
    red, green, blue = (
        (good + (bad - good) * part) / 255 for good, bad in zip(GOOD, BAD, strict=True)
    )
    return red, green, blue


def _share(row: ReportRow) -> float:
    """Return the share that is lost: cut off of images, or padding of sequences."""
    return row.fit.mean_loss if isinstance(row.fit, Fit) else row.fit.mean_padding


def _of(row: ReportRow) -> str:
    return "cut off" if isinstance(row.fit, Fit) else "padding"
