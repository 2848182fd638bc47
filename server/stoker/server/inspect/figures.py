"""Figures of matplotlib, which only the extra `plots` installs: imported once a plot is asked for.

Uses matplotlib's classes, not pyplot: no global state, no window, any thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stoker.protocol.errors import UsageError
from stoker.server.inspect.output_path import check_out

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def make_figure(width: float, height: float) -> Figure:
    """Return an empty figure.

    Args:
        width: in inches, of 100 pixels each.
        height: in inches.

    Raises:
        UsageError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow, and only the extra has it
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise UsageError("a plot needs matplotlib; run: pip install 'stoker[plots]'") from error
    return Figure(figsize=(width, height), dpi=100, layout="constrained")


def check_plot(path: Path | None) -> None:
    """Refuse a file that no plot can be written to, before the work that the plot shows.

    Args:
        path: of the file; None if no plot is asked for.

    Raises:
        UsageError: matplotlib is not installed or does not know the format, or the file cannot be
            written.
    """
    if path is None:
        return
    known = sorted(make_figure(1, 1).canvas.get_supported_filetypes())
    check_out("--plot", path, [f".{ending}" for ending in known])
