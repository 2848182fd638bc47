"""A picture of buckets: their shapes to scale, and how many images each has; drawn with Pillow."""

from typing import Final

from PIL import Image, ImageDraw, ImageFont

from stoker.order.buckets.fit import Fit, LengthFit
from stoker.server.inspect.bucket_report import Report, ReportRow

SHAPES: Final = 480
BARS: Final = 560
LINE: Final = 18
MARGIN: Final = 24
SHOWN: Final = 40
PAPER: Final = (255, 255, 255)
INK: Final = (40, 40, 40)
FAINT: Final = (200, 200, 200)
GOOD: Final = (70, 120, 180)
BAD: Final = (200, 70, 50)
WORST: Final = 0.2
"""Part of an image that is cut off at which a color is all bad."""


def plot(report: Report) -> Image.Image:
    """Return the picture: shapes on the left, counts on the right, the fullest buckets first.

    Colors say how much of an image is cut off on average, or how much of a batch of sequences is
    padding; the mark in a bar is one batch. Sequences have outlines as wide as their bucket is
    long, and as high as it is filled.
    """
    rows = report.fullest[:SHOWN]
    height = max(SHAPES, LINE * (len(rows) + 1)) + 2 * MARGIN
    page = Image.new("RGB", (SHAPES + BARS + 3 * MARGIN, height), PAPER)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=12)
    _draw_shapes(draw, rows)
    _draw_bars(draw, font, rows)
    more = len(report.rows) - len(rows)
    what = "images" if report.of_images else "sequences"
    title = f"{len(report.rows)} buckets of {report.samples:,} {what}" + (
        f", the {SHOWN} fullest shown" if more else ""
    )
    draw.text((MARGIN, 4), title, INK, font)
    return page


def _draw_shapes(draw: ImageDraw.ImageDraw, rows: tuple[ReportRow, ...]) -> None:
    """Draw the outlines from one corner, the emptiest first, so the fullest are on top."""
    longest = max(max(row.bucket.width, row.bucket.height) for row in rows)
    left, bottom = MARGIN, MARGIN + SHAPES
    draw.line((left, MARGIN, left, bottom, left + SHAPES, bottom), FAINT)
    for row in reversed(rows):
        right = left + row.bucket.width * SHAPES // longest
        top = bottom - row.bucket.height * SHAPES // longest
        if isinstance(row.fit, LengthFit):
            top = bottom - round((1 - row.fit.mean_padding) * SHAPES)
        draw.rectangle((left, top, right, bottom), outline=_color(row), width=2)


def _draw_bars(
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    rows: tuple[ReportRow, ...],
) -> None:
    most = max(max(row.bucket.samples, row.bucket.positions) for row in rows)
    left = SHAPES + 2 * MARGIN + 90
    width = BARS - 90 - 150
    for number, row in enumerate(rows):
        top = MARGIN + LINE * number
        draw.text((left - 90, top), row.bucket.name, INK, font)
        end = left + max(1, row.bucket.samples * width // most)
        draw.rectangle((left, top + 3, end, top + LINE - 4), fill=_color(row))
        batch = left + row.bucket.positions * width // most
        draw.line((batch, top + 1, batch, top + LINE - 2), INK, width=2)
        said = f"{row.bucket.samples:,}, {_share(row):.1%} {_of(row)}"
        draw.text((max(end, batch) + 6, top), said, INK, font)


def _color(row: ReportRow) -> tuple[int, int, int]:
    part = min(_share(row) / WORST, 1.0)
    mixed = [round(good + (bad - good) * part) for good, bad in zip(GOOD, BAD, strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _share(row: ReportRow) -> float:
    """Return the part that is lost: cut off of images, or padding of sequences."""
    return row.fit.mean_loss if isinstance(row.fit, Fit) else row.fit.mean_padding


def _of(row: ReportRow) -> str:
    return "cut off" if isinstance(row.fit, Fit) else "padding"
