"""Make a segmentation dataset from the photographs that scikit-image and scikit-learn ship.

    python make_data.py DEST [--pairs 640]

Writes DEST/images/<photograph>/NNNN.jpg and DEST/masks/<photograph>/NNNN.png, crops of 400 to 600
pixels per side, and DEST/classes.json. Nothing is downloaded: the photographs are in the wheels.

The masks come from a segmentation of each whole photograph: felzenszwalb's graph-based segments,
then one k-means over the mean Lab color of the segments of all photographs. So class k means the
same color family everywhere. A crop cuts image and mask with the same window. The image is
resampled bicubically, the mask to the nearest pixel. The folder is the label. All draws are
counter-based: the same versions of the libraries write the same bytes.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import skimage.data
import skimage.io
import sklearn.datasets
from numpy.typing import NDArray
from PIL import Image
from skimage.color import rgb2lab
from skimage.segmentation import felzenszwalb
from sklearn.cluster import KMeans

from stoker.rng.draws import integers, uniform_range
from stoker.rng.streams import make_key, stream_key

Pixels = NDArray[np.uint8]

CLASSES = 6
SEED = 20261121
SIDE_RANGE = (400, 600)
ZOOM_RANGE = (0.55, 1.0)  # side of the window as a fraction of the largest that fits
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
    "retina.jpg",
    "rocket.jpg",
    "china.jpg",
    "flower.jpg",
)


def photographs() -> Iterator[tuple[str, Pixels]]:
    """Yield (name, (H, W, 3) uint8) of each photograph in the installed wheels."""
    folders = (
        Path(skimage.data.__file__).parent,
        Path(sklearn.datasets.__file__).parent / "images",
    )
    for name in PHOTOGRAPHS:
        path = next(folder / name for folder in folders if (folder / name).is_file())
        with Image.open(path) as image:
            image.thumbnail((900, 900))
            yield path.stem, np.asarray(image.convert("RGB"))


def segmentations(photos: list[Pixels]) -> list[Pixels]:
    """Return a mask (H, W) uint8 of classes 0 to CLASSES - 1 for each photograph."""
    segments = [felzenszwalb(photo, scale=300, sigma=0.8, min_size=300) for photo in photos]
    colors, areas = [], []
    for photo, labels in zip(photos, segments, strict=True):
        area = np.bincount(labels.ravel())
        lab = rgb2lab(photo).reshape(-1, 3)
        sums = [np.bincount(labels.ravel(), weights=lab[:, axis]) for axis in range(3)]
        colors.append(np.stack(sums, axis=1) / area[:, None])
        areas.append(area)
    model = KMeans(CLASSES, n_init=4, random_state=0)
    model.fit(np.concatenate(colors), sample_weight=np.concatenate(areas))
    return [
        model.predict(color)[labels].astype(np.uint8)
        for color, labels in zip(colors, segments, strict=True)
    ]


def window(number: int, width: int, height: int) -> tuple[tuple[int, int], tuple[float, ...]]:
    """Draw crop `number` of a photograph: its size (w, h) and the window it shows."""
    key = make_key(SEED, stream_key("crop"), number, 0)
    low, high = SIDE_RANGE
    size = (low + integers(key, 0, high - low + 1), low + integers(key, 1, high - low + 1))
    zoom = uniform_range(key, 2, *ZOOM_RANGE) * min(width / size[0], height / size[1])
    shown = (size[0] * zoom, size[1] * zoom)
    left = uniform_range(key, 3, 0.0, max(width - shown[0], 0.0))
    top = uniform_range(key, 4, 0.0, max(height - shown[1], 0.0))
    return size, (left, top, min(left + shown[0], width), min(top + shown[1], height))


def write_pair(dest: Path, sources: list[tuple[str, Image.Image, Image.Image]], pair: int) -> None:
    """Write one image and its mask."""
    name, image, mask = sources[pair % len(sources)]
    size, box = window(pair, *image.size)
    number = pair // len(sources)
    cut = image.resize(size, Image.Resampling.BICUBIC, box=box)
    cut.save(dest / "images" / name / f"{number:04d}.jpg", quality=92)
    cut = mask.resize(size, Image.Resampling.NEAREST, box=box)
    cut.save(dest / "masks" / name / f"{number:04d}.png", compress_level=1)


def make(dest: Path, pairs: int) -> None:
    """Make the whole dataset below `dest`."""
    names, photos = zip(*photographs(), strict=True)
    masks = segmentations(list(photos))
    sources = [
        (name, Image.fromarray(photo), Image.fromarray(mask))
        for name, photo, mask in zip(names, photos, masks, strict=True)
    ]
    for name in names:
        (dest / "images" / name).mkdir(parents=True, exist_ok=True)
        (dest / "masks" / name).mkdir(parents=True, exist_ok=True)
    (dest / "classes.json").write_text(json.dumps({"labels": names, "mask_classes": CLASSES}))
    with ThreadPoolExecutor() as pool:  # Pillow releases the interpreter's lock
        for _ in pool.map(partial(write_pair, dest, sources), range(pairs)):
            pass


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=Path)
    parser.add_argument("--pairs", type=int, default=640)
    arguments = parser.parse_args()
    make(arguments.dest, arguments.pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
