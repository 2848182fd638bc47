"""Decoding of gridded JPEGs: by Stoker's own decoder, also as bit planes, and by libjpeg-turbo.

    python benchmarks/jpeg_decoding.py [FOLDER_OF_JPEGS]

Packs photographs on the grid (of scikit-image and scikit-learn without a folder) and decodes random
resized crops, and whole images, in all ways. libjpeg-turbo gets spliced files. Resizing is not part
of it. Numbers are process CPU time in microseconds: each crop's least of several rounds, in which
all crops come in a shuffled order and the contenders take turns, and the mean of all crops. Compare
ratios, not rates of different runs. Ratios are to libjpeg-turbo; bytes are those of planes, to
those of gridded JPEGs.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import simplejpeg
import skimage.data
from sklearn.datasets import load_sample_images

from stoker.dataset.images.box_decoding import WORTH, BoxScratch, decode_boxed
from stoker.dataset.images.codecs import decode_jpeg
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.images.jpeg.planes.plane_files import to_planes

FILES, CROPS, ROUNDS = 40, 4, 10
SIDES = (375, 500)
QUALITIES = (75, 85, 92)


class Crop(NamedTuple):
    """A box of a gridded file, and the same file as bit planes."""

    data: memoryview
    grid: memoryview
    planes: memoryview
    planes_grid: memoryview
    size: tuple[int, int]
    box: tuple[int, int, int, int]


def random_box(rng: np.random.Generator, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the box of a random resized crop: scale 0.08 to 1, ratio 3/4 to 4/3."""
    for _ in range(10):
        area = size[0] * size[1] * rng.uniform(0.08, 1)
        ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        height, width = round((area / ratio) ** 0.5), round((area * ratio) ** 0.5)
        if 0 < height <= size[0] and 0 < width <= size[1]:
            top, left = (
                rng.integers(0, a - b + 1) for a, b in zip(size, (height, width), strict=True)
            )
            return int(top), int(left), height, width
    side = min(size)
    return (size[0] - side) // 2, (size[1] - side) // 2, side, side


def photographs(quality: int) -> list[bytes]:
    """Return cuts of photographs as JPEGs, one in seven of them 4:4:4."""
    china, flower = load_sample_images().images
    sources = [china, flower, skimage.data.astronaut(), skimage.data.coffee()]
    rng, found = np.random.default_rng(1), []
    for number in range(FILES):
        source = sources[number % len(sources)]
        top, left = (
            int(rng.integers(0, a - b + 1)) for a, b in zip(source.shape, SIDES, strict=False)
        )
        pixels = np.ascontiguousarray(source[top : top + SIDES[0], left : left + SIDES[1]])
        sampling = "444" if number % 7 == 0 else "420"
        found.append(simplejpeg.encode_jpeg(pixels, quality, colorsubsampling=sampling))
    return found


def crops_of(files: list[bytes]) -> tuple[list[Crop], list[Crop]]:
    """Return random crops, and the whole images."""
    rng, crops, whole = np.random.default_rng(5), [], []
    for file in files:
        made = rewrite(file)
        planes = to_planes(made)
        if planes is None:
            raise SystemExit("a file has no bit planes")
        views = tuple(
            memoryview(part) for one in (made, planes) for part in (one.data, one.grid.to_bytes())
        )
        height, width, *_ = simplejpeg.decode_jpeg_header(file)
        whole.append(Crop(*views, (height, width), (0, 0, height, width)))
        crops += [
            Crop(*views, (height, width), random_box(rng, (height, width))) for _ in range(CROPS)
        ]
    return crops, whole


def contenders() -> dict[str, Callable[[Crop], Any]]:
    """Return all ways to decode."""
    scratch, decoder, out = BoxScratch(), BoxDecoder(), np.zeros(1 << 24, np.uint8)

    def libjpeg(crop: Crop) -> None:
        height, width = crop.size
        image = out[: 3 * height * width].reshape(height, width, 3)
        if not decode_boxed(crop.data, crop.grid, crop.size, 1, crop.box, image, scratch):
            decode_jpeg(crop.data, "image", crop.size, out[: 3 * height * width])

    def decode(crop: Crop, data: memoryview, grid: memoryview) -> None:
        height, width = crop.size
        most = int(WORTH * height * width)
        place = 3 * (crop.box[0] * width + crop.box[1])
        target = out, place, 3 * width
        if not decoder.decode(data, grid, crop.size, crop.box, most, target):
            raise SystemExit("a file is not covered")

    return {
        "libjpeg": libjpeg,
        "stoker": lambda crop: decode(crop, crop.data, crop.grid),
        "planes": lambda crop: decode(crop, crop.planes, crop.planes_grid),
    }


def measured(crops: list[Crop], named: dict[str, Callable[[Crop], Any]]) -> dict[str, float]:
    """Return microseconds of CPU time a crop for each contender."""
    best = {name: np.full(len(crops), np.inf) for name in named}
    for crop in crops[:3]:
        for run in named.values():
            run(crop)
    for turn in range(ROUNDS):
        rng = np.random.default_rng(turn)
        order = rng.permutation(len(crops))
        for name in rng.permutation(list(named)):
            run = named[name]
            for number in order:
                begun = time.process_time_ns()
                run(crops[number])
                spent = (time.process_time_ns() - begun) / 1000
                best[name][number] = min(best[name][number], spent)
    return {name: float(spent.mean()) for name, spent in best.items()}


def main() -> None:
    """Print a line for each set of files."""
    named = contenders()
    sets = {f"quality {quality}": photographs(quality) for quality in QUALITIES}
    if len(sys.argv) > 1:
        found = sorted(Path(sys.argv[1]).rglob("*.jp*g"))
        files = found[:: max(1, len(found) // FILES)][:FILES]
        sets = {sys.argv[1]: [file.read_bytes() for file in files]}
    print(f"{'':24}{'libjpeg us':>12}{'stoker us':>12}{'planes us':>12}{'ratios':>14}{'bytes':>8}")
    for name, files in sets.items():
        for what, crops in zip(("crops", "whole"), crops_of(files), strict=True):
            best = measured(crops, named)
            ratios = [best[way] / best["libjpeg"] for way in ("stoker", "planes")]
            times = "".join(f"{spent:12.1f}" for spent in best.values())
            size, grown = (
                sum(map(len, column)) for column in list(zip(*crops, strict=True))[0:4:2]
            )
            row = f"{times}{ratios[0]:7.3f}{ratios[1]:7.3f}{grown / size:8.3f}"
            print(f"{name + ', ' + what:24}{row}", flush=True)


if __name__ == "__main__":
    main()
