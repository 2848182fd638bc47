"""The picture of a graph as SVG, for notebooks: rows of boxes, and lines from top to bottom.

A box is in the row below the lowest box that it has a line from; outputs are in the last row. A
line that passes rows has a place in each of them, so that it runs between boxes. In each row, boxes
and places are in the order of the mean position of those that lead to them. Text is escaped,
nothing is loaded, and all colors are those of the document's text, so it follows light and dark
schemes. Lengths are pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.showing.graph_boxes import Box, Line, graph_boxes

MOST_BOXES: Final = 150
"""Larger graphs have no picture."""
LONGEST: Final = 44
"""Characters of a line of text."""
_CHARACTER, _HIGH, _ROW, _GAP, _MARGIN = 7.3, 40.0, 78.0, 18.0, 8.0
_OUTLINES: Final = {
    "field": 'rx="20" stroke-dasharray="5 3"',
    "op": 'rx="4"',
    "number": 'rx="4" stroke-dasharray="1 3"',
    "join": 'rx="4" stroke-dasharray="8 3"',
    "output": 'rx="20" stroke-width="2"',
}


@dataclass
class _Place:
    """A box in its row, or the place of a line that passes the row."""

    box: Box | None
    width: float
    x: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def graph_svg(graph: Graph) -> str:
    """Return a graph as a picture; empty if it has more than `MOST_BOXES` boxes."""
    found = graph_boxes(graph)
    if len(found.boxes) > MOST_BOXES:
        return ""
    rows, hops = _rows(found.boxes, found.lines)
    wide = _place(rows, hops)
    high = _ROW * (len(rows) - 1) + _HIGH + 2 * _MARGIN
    body = [_curve(*hop) for hop in hops]
    for number, row in enumerate(rows):
        body += [_drawn(place, _top(number)) for place in row if place.box is not None]
    counted = ("field", "op", "output")
    counts = [(kind, sum(box.look == kind for box in found.boxes)) for kind in counted]
    words = ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in counts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="graph: {words}" '
        f'width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}" '
        'style="max-width:100%;height:auto" font-family="monospace" font-size="12" fill="none" '
        f'stroke="currentColor">{"".join(body)}</svg>'
    )


Hop = tuple[int, _Place, _Place, str]
"""A part of a line: from a place in the row of that number to one in the next, and its label."""


def _rows(boxes: Sequence[Box], lines: Sequence[Line]) -> tuple[list[list[_Place]], list[Hop]]:
    """Return the places of each row, and the parts of the lines."""
    depth = [0] * len(boxes)
    for line in lines:  # in the order of their ends, and each begins at an earlier box
        depth[line.end] = max(depth[line.end], depth[line.start] + 1)
    last = max(depth, default=0)
    depth = [last if box.look == "output" else at for box, at in zip(boxes, depth, strict=True)]
    rows: list[list[_Place]] = [[] for _ in range(last + 1)]
    places = [_Place(box, _width(box)) for box in boxes]
    for place, at in zip(places, depth, strict=True):
        rows[at].append(place)
    hops: list[Hop] = []
    for line in lines:
        before = places[line.start]
        for at in range(depth[line.start] + 1, depth[line.end]):
            passing = _Place(None, _GAP)
            rows[at].append(passing)
            hops.append((at - 1, before, passing, ""))
            before = passing
        hops.append((depth[line.end] - 1, before, places[line.end], line.label))
    return rows, hops


def _place(rows: Sequence[list[_Place]], hops: Sequence[Hop]) -> float:
    """Put the places of each row in order and give them their x; return the width of all."""
    widths = [sum(place.width for place in row) + _GAP * (len(row) - 1) for row in rows]
    wide = max(widths, default=0.0)
    above: dict[int, list[_Place]] = {}
    for _, before, after, _ in hops:
        above.setdefault(id(after), []).append(before)
    for row, width in zip(rows, widths, strict=True):
        row.sort(key=lambda place: _mean(above.get(id(place), [])))
        x = _MARGIN + (wide - width) / 2
        for place in row:
            place.x = x
            x += place.width + _GAP
    return wide + 2 * _MARGIN


def _mean(places: Sequence[_Place]) -> float:
    return sum(place.middle for place in places) / len(places) if places else 0.0


def _width(box: Box) -> float:
    longest = max(len(_cut(text)) for text in (box.text, box.note))
    return max(longest * _CHARACTER + 20, 60.0)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _top(row: int) -> float:
    return _MARGIN + _ROW * row


def _curve(row: int, before: _Place, after: _Place, label: str) -> str:
    start = _top(row) + (_HIGH if before.box is not None else _HIGH / 2)
    end = _top(row + 1) + (0 if after.box is not None else _HIGH / 2)
    half = (start + end) / 2
    above = start + 0.55 * (end - start)
    path = (
        f'<path d="M{before.middle:.1f} {start:.1f}C{before.middle:.1f} {half:.1f} '
        f'{after.middle:.1f} {half:.1f} {after.middle:.1f} {end:.1f}"/>'
    )
    if not label:
        return path
    x = (before.middle + after.middle) / 2 + 4
    return path + _text(x, above, label, 'font-size="10"')


def _drawn(place: _Place, top: float) -> str:
    box = place.box
    assert box is not None
    lines = [text for text in (box.text, box.note) if text]
    first = top + (25 if len(lines) == 1 else 17)
    texts = [
        _text(place.middle, first + 16 * n, _cut(text), 'text-anchor="middle"' + _weight(n))
        for n, text in enumerate(lines)
    ]
    about = f"<title>{escape(box.about)}</title>" if box.about else ""
    return (
        f'<g>{about}<rect x="{place.x:.1f}" y="{top:.1f}" width="{place.width:.1f}" '
        f'height="{_HIGH:.0f}" {_OUTLINES[box.look]}/>{"".join(texts)}</g>'
    )


def _weight(line: int) -> str:
    return ' font-weight="bold"' if line == 0 else ' font-size="11"'


def _text(x: float, y: float, text: str, more: str) -> str:
    shown = escape(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor" stroke="none" {more}>{shown}</text>'
