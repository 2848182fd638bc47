"""Make the benchmarks' data from the photographs that scikit-image and scikit-learn ship.

    python benchmarks/make_data.py benchmarks/data --what images|tiny|pairs [--count N]

- `images`: images/<photograph>/NNNNN.jpg, 2000 of 500x375 pixels, 4:2:0, baseline, quality 94,
  about 100 KB in the mean, like ImageNet's training set.
- `pairs`: 300 of images/NNNNN.jpg, 1024x768, about 190 KB, and masks/NNNNN.png with a class for
  each of about 60 regions.
- `tiny`: image.npy (50000, 32, 32, 3) and label.npy.

Each image is a random window of a photograph, resampled by Lanczos. JPEGs get luminance grain,
because decoding time depends on the number of bytes and a resampled photograph has too few. Prints
statistics of the result. The same versions of the libraries write the same bytes.
"""

import argparse
import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import skimage.data
from PIL import Image
from skimage.segmentation import slic

SIZE = (500, 375)
PAIR_SIZE = (1024, 768)
COUNTS = {"images": 2000, "pairs": 300, "tiny": 50_000}
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
        Path(find_spec("sklearn").origin).parent / "datasets" / "images",  # a slow import
    )
    found = []
    for name in PHOTOGRAPHS:
        path = next(folder / name for folder in folders if (folder / name).is_file())
        with Image.open(path) as image:
            found.append((path.stem, image.convert("RGB")))
    return found


def shown(photo: Image.Image, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Cut a window of at least half the photograph, (height, width, 3) uint8."""
    width, height = photo.size
    scale = rng.uniform(0.55, 1.0) * min(width / size[0], height / size[1])
    part = (size[0] * scale, size[1] * scale)
    left, top = rng.uniform(0, width - part[0]), rng.uniform(0, height - part[1])
    box = (left, top, left + part[0], top + part[1])
    return np.asarray(photo.resize(size, Image.Resampling.LANCZOS, box=box))


def encoded(
    pixels: np.ndarray, rng: np.random.Generator, quality: int, sigma: tuple[float, float]
) -> bytes:
    """Encode a JPEG with grain of a sigma in that range."""
    grain = rng.standard_normal(pixels.shape[:2], np.float32) * rng.uniform(*sigma)
    grainy = np.clip(pixels.astype(np.int16) + np.round(grain).astype(np.int16)[..., None], 0, 255)
    out = io.BytesIO()
    Image.fromarray(grainy.astype(np.uint8)).save(out, "JPEG", quality=quality, subsampling="4:2:0")
    return out.getvalue()


def write_image(dest: Path, photos: list[tuple[str, Image.Image]], number: int) -> int:
    name, photo = photos[number % len(photos)]
    rng = np.random.default_rng([SEED, number])
    data = encoded(shown(photo, SIZE, rng), rng, 94, (2, 12))
    (dest / name).mkdir(parents=True, exist_ok=True)
    (dest / name / f"{number:05d}.jpg").write_bytes(data)
    return len(data)


def write_pair(dest: Path, photos: list[tuple[str, Image.Image]], number: int) -> int:
    _, photo = photos[number % len(photos)]
    rng = np.random.default_rng([SEED + 1, number])
    pixels = shown(photo, PAIR_SIZE, rng)
    regions = slic(pixels[::4, ::4], n_segments=60, compactness=5, start_label=0, channel_axis=-1)
    classes = rng.integers(0, 19, regions.max() + 1).astype(np.uint8)[regions]
    mask = classes.repeat(4, 0).repeat(4, 1)
    data = encoded(pixels, rng, 88, (1, 6))
    for folder in ("images", "masks"):
        (dest / folder).mkdir(parents=True, exist_ok=True)
    (dest / "images" / f"{number:05d}.jpg").write_bytes(data)
    Image.fromarray(mask).save(dest / "masks" / f"{number:05d}.png")
    return len(data)


def write_tiny(dest: Path, photos: list[tuple[str, Image.Image]], count: int) -> list[int]:
    """Make all of them at once: windows of downscaled photographs."""
    rng = np.random.default_rng(SEED + 2)
    small = [np.asarray(photo.resize((200, 150), Image.Resampling.LANCZOS)) for _, photo in photos]
    labels = rng.integers(0, len(small), count)
    images = np.empty((count, 32, 32, 3), np.uint8)
    for number, label in enumerate(labels):
        top, left = rng.integers(0, 150 - 32), rng.integers(0, 200 - 32)
        images[number] = small[label][top : top + 32, left : left + 32]
    dest.mkdir(parents=True, exist_ok=True)
    np.save(dest / "image.npy", images)
    np.save(dest / "label.npy", labels.astype(np.int64))
    return [images[0].size] * count


def make(dest: Path, what: str, count: int) -> dict[str, float]:
    photos = photographs()
    if what == "tiny":
        sizes = np.array(write_tiny(dest / what, photos, count)) / 1000
    else:
        write = {"images": write_image, "pairs": write_pair}[what]
        with ThreadPoolExecutor() as pool:
            found = pool.map(partial(write, dest / what, photos), range(count))
            sizes = np.array(list(found)) / 1000
    return {
        what: count,
        "mean_kb": round(float(sizes.mean()), 1),
        "median_kb": round(float(np.median(sizes)), 1),
        "min_kb": round(float(sizes.min()), 1),
        "max_kb": round(float(sizes.max()), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=Path)
    parser.add_argument("--what", choices=COUNTS, default="images")
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    stats = make(arguments.dest, arguments.what, arguments.count or COUNTS[arguments.what])
    (arguments.dest / f"{arguments.what}.json").write_text(json.dumps(stats) + "\n")
    print(json.dumps(stats))
    return 0


if __name__ == "__main__":
    sys.exit(main())
