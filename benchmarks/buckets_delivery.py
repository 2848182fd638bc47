"""The cost of buckets in delivery: pixels per second with buckets, and with one size.

The same photographs, as JPEGs of many shapes, go through one private daemon: once to the sizes of
their buckets, once all to the square of their mean area. So both decode and deliver the same number
of pixels. Epochs alternate, so a slowdown of the machine affects both.

    python benchmarks/buckets_delivery.py --images 600 --rounds 5 --workers 2
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import skimage.data

from stoker import ops
from stoker.client import Buckets, Loader
from stoker.dataset import open_dataset, schema, write
from stoker.pipeline import pipeline
from stoker.server.rows.orders import plan_buckets

SIDE, BATCH = 256, 16


@pipeline
def bucketed(sample):
    return {"image": ops.horizontal_flip(ops.fit_bucket(sample.image, crop="random"))}


@pipeline
class Square:
    """Resize all images to one size."""

    def __init__(self, side: int) -> None:
        self.side = side

    def define(self, sample):
        image = ops.fit_bucket(sample.image, size=(self.side, self.side), crop="random")
        return {"image": ops.horizontal_flip(image)}


def make_dataset(folder: Path, images: int) -> Path:
    """Write crops of photographs with log-normal ratios and about the same area, as JPEGs."""
    rng = np.random.default_rng(2)
    photos = [skimage.data.astronaut(), skimage.data.coffee()]
    rows = []
    for number in range(images):
        photo = photos[number % 2]
        ratio = float(np.exp(rng.normal(0.1, 0.3)))
        width = min(int(320 * ratio**0.5), photo.shape[1])
        height = min(int(320 / ratio**0.5), photo.shape[0])
        top = int(rng.integers(0, photo.shape[0] - height + 1))
        left = int(rng.integers(0, photo.shape[1] - width + 1))
        rows.append({"image": photo[top : top + height, left : left + width].copy()})
    write(folder, [schema.image()], rows)
    return folder


def epoch(loader: Loader) -> float:
    """Return the pixels per second of one epoch."""
    begun, pixels = time.perf_counter(), 0
    for batch in loader:
        pixels += batch.image.size // 3
    return pixels / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dataset = make_dataset(Path(folder) / "photos", given.images)
        common = {"batch_size": BATCH, "device": "numpy", "workers": given.workers, "prefetch": 6}
        buckets = Buckets(max_area=SIDE * SIDE, divisor=32)
        with open_dataset(dataset) as opened:
            plan = plan_buckets([opened], buckets, BATCH)
        area = sum(b.width * b.height * b.samples for b in plan.buckets) / given.images
        square = Square(round(area**0.5))
        with (
            Loader(dataset, pipeline=bucketed, buckets=buckets, **common) as many,
            Loader(dataset, pipeline=square, **common) as one,
        ):
            found: dict[str, list[float]] = {"buckets": [], "one size": []}
            for turn in range(given.rounds + 1):
                for name, loader in (("buckets", many), ("one size", one)):
                    rate = epoch(loader)
                    if turn:  # the first one compiles and warms up
                        found[name].append(rate)
    for name, rates in found.items():
        shown = ", ".join(f"{rate / 1e6:.1f}" for rate in rates)
        print(f"{name}: {max(rates) / 1e6:.1f} million pixels/s ({shown})")
    ratios = [a / b for a, b in zip(found["buckets"], found["one size"], strict=True)]
    best = max(found["buckets"]) / max(found["one size"])
    print(f"buckets / one size: best {best:.3f}, median of the rounds {np.median(ratios):.3f}")


if __name__ == "__main__":
    main()
