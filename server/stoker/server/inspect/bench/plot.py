"""A plot of throughput over workers, PNG. Needs Pillow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from stoker.server.inspect.bench.rates import Rate

SIZE: Final = (640, 400)
MARGIN: Final = (80, 30, 30, 50)
INK: Final = (20, 20, 20)
PALE: Final = (200, 200, 200)
COLORS: Final = ((31, 119, 180), (214, 96, 39))


def plot(path: Path, stoker: Sequence[Rate], torch: Sequence[Rate], per_worker: float) -> None:
    """Draw rates over workers, with the line of workers times one worker's code.

    Args:
        path: of the PNG.
        stoker: through daemon and client, in the order of workers.
        torch: of a DataLoader; may be empty.
        per_worker: rows per second of one worker's code without a daemon.
    """
    picture = Image.new("RGB", SIZE, "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(13)
    most = max(rate.workers for rate in (*stoker, *torch))
    top = _round_up(max(*(rate.rows_per_s for rate in (*stoker, *torch)), most * per_worker))
    left, above, right, below = MARGIN
    width, height = SIZE[0] - left - right, SIZE[1] - above - below

    def at(workers: float, rate: float) -> tuple[float, float]:
        return left + width * workers / most, above + height * (1 - rate / top)

    for part in range(6):
        x, y = at(0, top * part / 5)
        draw.line([(x, y), (x + width, y)], PALE if part else INK)
        draw.text((left - 8, y), f"{top * part / 5:,.0f}", INK, font, anchor="rm")
    for workers in sorted({rate.workers for rate in (*stoker, *torch)}):
        x, y = at(workers, 0)
        draw.text((x, y + 6), str(workers), INK, font, anchor="mt")
    draw.text((left + width / 2, SIZE[1] - 16), "workers", INK, font, anchor="mm")
    draw.text((left, 14), "rows per second", INK, font, anchor="lm")
    draw.line([at(0, 0), at(most, most * per_worker)], PALE, 2)
    series = [("Stoker", stoker), ("DataLoader", torch)]
    for number, (name, rates) in enumerate(series):
        points = [at(rate.workers, rate.rows_per_s) for rate in rates]
        if not points:
            continue
        draw.line(points, COLORS[number], 2)
        for x, y in points:
            draw.ellipse((x - 4, y - 4, x + 4, y + 4), COLORS[number])
        place = (left + width - 4, above + 12 + 18 * number)
        draw.text(place, name, COLORS[number], font, anchor="rm")
    picture.save(path)


def _round_up(value: float) -> float:
    step = 1.0
    while value > 10 * step:
        step *= 10
    return float(-(-value // step) * step)
