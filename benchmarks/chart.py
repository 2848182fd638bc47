"""A plot of rates as SVG: a panel for each workload, a bar for each contender."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

WIDTH, LABELS, VALUES, BAR, GAP, MARGIN = 920, 320, 110, 16, 6, 14
INK, OURS, THEIRS = "#222222", "#1f77b4", "#c4c4c4"


class Rates(Protocol):
    """Median, least and greatest rate."""

    rate: float
    low: float
    high: float


def chart(panels: Sequence[tuple[str, Mapping[str, Rates]]]) -> str:
    """Return the SVG text.

    Args:
        panels: title and contenders of each panel; Stoker's own have its name or are plain loops.
    """
    parts, top = [], MARGIN
    for title, rates in panels:
        parts.append(_text(MARGIN, top + 13, title, weight="bold"))
        top += BAR + 2 * GAP
        most = max(rate.high for rate in rates.values())
        for name, rate in sorted(rates.items(), key=lambda pair: -pair[1].rate):
            parts += _bar(top, name, rate, (WIDTH - LABELS - VALUES) / most)
            top += BAR + GAP
        top += 2 * MARGIN
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    font = 'font-family="sans-serif" font-size="13"'
    paper = f'<rect width="{WIDTH}" height="{top}" fill="white"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    return "\n".join([head, paper, *parts, "</svg>", ""])


def _bar(top: int, name: str, rate: Rates, scale: float) -> list[str]:
    """Draw a contender's bar, with a line from its least to its greatest rate."""
    color = OURS if "Stoker" in name or "plain loops" in name else THEIRS
    middle, low, high = top + BAR / 2, LABELS + rate.low * scale, LABELS + rate.high * scale
    width = rate.rate * scale
    return [
        _text(LABELS - 8, top + 13, name, anchor="end"),
        f'<rect x="{LABELS}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{color}"/>',
        f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="{INK}" stroke-width="1.5"/>',
        _text(max(LABELS + width, high) + 6, top + 13, f"{rate.rate:,.0f}/s"),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {place} fill="{INK}">{escape(text)}</text>'
