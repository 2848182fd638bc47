"""Make JPEGs like ImageNet's out of the photographs that scikit-image and scikit-learn ship.

    python benchmarks/make_data.py benchmarks/data [--images 2000]

Writes DEST/images/<photograph>/NNNNN.jpg: 500x375 pixels, 4:2:0, baseline, quality 94, about 100 KB
in the mean, as ImageNet's training set has. Each is a random window of a photograph, resampled by
Lanczos, with luminance grain added: decoding time follows the bytes, and a resampled photograph has
too few of them. Prints what came out. The same versions of Pillow and NumPy write the same bytes.
"""

import argparse
import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import skimage.data
import sklearn.datasets
from PIL import Image

SIZE = (500, 375)
SEED = 20261121
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "rocket.jpg",
    "china.jpg",
    "flower.jpg",
)


def photographs() -> list[tuple[str, Image.Image]]:
    folders = (
        Path(skimage.data.__file__).parent,
        Path(sklearn.datasets.__file__).parent / "images",
    )
    found = []
    for name in PHOTOGRAPHS:
        path = next(folder / name for folder in folders if (folder / name).is_file())
        with Image.open(path) as image:
            found.append((path.stem, image.convert("RGB")))
    return found


def encoded(photo: Image.Image, number: int) -> bytes:
    """One JPEG: a window of at least half the photograph, with grain of sigma 2 to 12."""
    rng = np.random.default_rng([SEED, number])
    width, height = photo.size
    scale = rng.uniform(0.55, 1.0) * min(width / SIZE[0], height / SIZE[1])
    shown = (SIZE[0] * scale, SIZE[1] * scale)
    left, top = rng.uniform(0, width - shown[0]), rng.uniform(0, height - shown[1])
    box = (left, top, left + shown[0], top + shown[1])
    pixels = np.asarray(photo.resize(SIZE, Image.Resampling.LANCZOS, box=box)).astype(np.int16)
    grain = rng.standard_normal(pixels.shape[:2], np.float32) * rng.uniform(2, 12)
    grainy = np.clip(pixels + np.round(grain).astype(np.int16)[..., None], 0, 255)
    out = io.BytesIO()
    Image.fromarray(grainy.astype(np.uint8)).save(out, "JPEG", quality=94, subsampling="4:2:0")
    return out.getvalue()


def write(dest: Path, photos: list[tuple[str, Image.Image]], number: int) -> int:
    name, photo = photos[number % len(photos)]
    data = encoded(photo, number)
    (dest / "images" / name / f"{number:05d}.jpg").write_bytes(data)
    return len(data)


def make(dest: Path, images: int) -> dict[str, float]:
    photos = photographs()
    for name, _ in photos:
        (dest / "images" / name).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        sizes = np.array(list(pool.map(partial(write, dest, photos), range(images)))) / 1000
    return {
        "images": images,
        "mean_kb": round(float(sizes.mean()), 1),
        "median_kb": round(float(np.median(sizes)), 1),
        "min_kb": round(float(sizes.min()), 1),
        "max_kb": round(float(sizes.max()), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=Path)
    parser.add_argument("--images", type=int, default=2000)
    arguments = parser.parse_args()
    stats = make(arguments.dest, arguments.images)
    (arguments.dest / "stats.json").write_text(json.dumps(stats) + "\n")
    print(json.dumps(stats))
    return 0


if __name__ == "__main__":
    sys.exit(main())
