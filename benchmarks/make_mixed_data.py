"""Make data as varied as ImageNet from photographs in three Debian packages of wallpapers.

    python benchmarks/make_mixed_data.py DEST [--photographs DIR]

The images of `make_data.py` all have one size; these do not. `imagenet_like` has 2000 JPEGs of
fourteen sizes with labels: qualities 88 to 96, 15 % of them 4:4:4 and the others 4:2:0, 1.5 % gray,
104 KB in the mean. `cifar_like` has 50,000 images (32, 32, 3). `seg_like` has 500 JPEGs of about
0.8 megapixels with masks of 19 classes. `foreign_data.py` describes the layout. `apt-get download`
fetches the packages, unless DIR has them unpacked (`dpkg -x`). The same versions of Pillow, NumPy
and scikit-image write the same bytes.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import numpy as np
from PIL import Image
from skimage.segmentation import slic

SEED = 20261121
PACKAGES = ("lomiri-wallpapers-16.04", "lomiri-wallpapers-20.04", "mate-backgrounds")
# The photographs in those packages, without drawings, gradients and logos, and the weight of each.
# Detailed scenes have a higher weight, because wallpapers are smoother than ImageNet.
PHOTOGRAPHS = {
    "Bridge_by_Sander_Klootwijk.jpg": 2,
    "Dragonfly_by_Bolly.jpg": 4,
    "Kleiber_by_Lukas_Baubkus.jpg": 1,
    "Picture_0B_by_freespace.jpg": 1,
    "Picture_1A_by_freespace.jpg": 2,
    "Wine_by_Jakkub_Mede.jpg": 2,
    "aitzgorri_by_Aitzol_Berasategi.jpg": 3,
    "free_by_Peter_Nerlich.jpg": 1,
    "friends_by_Aitzol_Berasategi.jpg": 3,
    "greentock_by_Peter_Nerlich.jpg": 1,
    "life_by_Aitzol_Berasategi.jpg": 4,
    "picosdeeuropa_by_Aitzol_Berasategi.jpg": 3,
    "seeding_by_Clements_Engelhardt.jpg": 2,
    "sunset_by_Aitzol_Berasategi.jpg": 2,
    "Aqua.jpg": 1,
    "Blinds.jpg": 1,
    "Dune.jpg": 1,
    "FreshFlower.jpg": 1,
    "Garden.jpg": 1,
    "GreenMeadow.jpg": 3,
    "LadyBird.jpg": 1,
    "RainDrops.jpg": 1,
    "Storm.jpg": 1,
    "TwoWings.jpg": 1,
    "Wood.jpg": 1,
    "YellowFlower.jpg": 1,
    "Elephants_3840x2160.jpg": 3,
}
# (width, height) and its share; None means a random size.
SIZES = (
    ((500, 375), 0.40),
    ((375, 500), 0.13),
    ((500, 333), 0.15),
    ((333, 500), 0.05),
    ((500, 500), 0.03),
    ((400, 300), 0.05),
    ((640, 480), 0.04),
    ((300, 225), 0.03),
    ((250, 200), 0.02),
    ((200, 200), 0.01),
    ((800, 600), 0.03),
    ((1024, 683), 0.015),
    ((1200, 900), 0.015),
    (None, 0.03),
)
QUALITIES = ((88, 0.05), (90, 0.10), (92, 0.2), (93, 0.15), (94, 0.15), (95, 0.2), (96, 0.15))
PAIR_SIZES = (
    ((1024, 768), 0.6),
    ((1024, 683), 0.2),
    ((768, 1024), 0.1),
    ((1024, 1024), 0.07),
    ((2048, 1024), 0.03),
)
IMAGES, PAIRS, TINY, TINY_BLOCK = 2000, 500, 50_000, 500


def fetch(dest: Path) -> None:
    """Download and unpack the packages."""
    for package in PACKAGES:
        subprocess.run(["apt-get", "download", package], cwd=dest, check=True)
    for archive in sorted(dest.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(archive), str(dest)], check=True)


def locate(folder: Path) -> list[Path]:
    """Return the photographs' paths, in the order of `PHOTOGRAPHS`."""
    found = []
    for name in PHOTOGRAPHS:
        paths = sorted(str(path) for path in folder.rglob(name) if not path.is_symlink())
        if not paths:
            raise SystemExit(f"{folder} has no photograph {name}; unpack {', '.join(PACKAGES)}")
        found.append(Path(paths[0]))
    return found


@cache
def photograph(path: Path) -> Image.Image:
    """Return a photograph, decoded once per process."""
    with Image.open(path) as image:
        return image.convert("RGB")


def drawn(rng: np.random.Generator, paths: list[Path]) -> Image.Image:
    """Draw one of the photographs, by weight."""
    weights = np.array([PHOTOGRAPHS[path.name] for path in paths], float)
    return photograph(paths[rng.choice(len(paths), p=weights / weights.sum())])


def part(
    rng: np.random.Generator,
    image: Image.Image,
    size: tuple[int, int],
    shrinking: tuple[float, float],
) -> Image.Image:
    """Cut a random window, shrunk to a size by a factor of that range, mirrored half the time."""
    width, height = image.size
    scale = min(rng.uniform(*shrinking), width / size[0], height / size[1])
    across, down = (
        min(most, max(1, round(side * scale))) for most, side in zip(image.size, size, strict=True)
    )
    left, top = int(rng.integers(0, width - across + 1)), int(rng.integers(0, height - down + 1))
    image = image.crop((left, top, left + across, top + down))
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def grainy(rng: np.random.Generator, image: Image.Image) -> Image.Image:
    """Add the luminance noise of a camera, for as many bytes per pixel as ImageNet has."""
    pixels = np.asarray(image).astype(np.int16)
    grain = rng.standard_normal(pixels.shape[:2], np.float32) * rng.uniform(0, 15)
    noise = np.round(grain).astype(np.int16)[..., None]
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def write_image(dest: Path, paths: list[Path], number: int) -> None:
    rng = np.random.default_rng([SEED, 1, number])
    size = SIZES[rng.choice(len(SIZES), p=[share for _, share in SIZES])][0]
    size = size or (int(rng.integers(200, 700)), int(rng.integers(200, 700)))
    image = grainy(rng, part(rng, drawn(rng, paths), size, (2.0, 8.0)))
    levels, shares = zip(*QUALITIES, strict=True)
    quality = int(rng.choice(levels, p=shares))
    options = {"subsampling": 0 if rng.random() < 0.15 else 2}
    if rng.random() < 0.015:
        image, options = image.convert("L"), {}
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, **options)
    (dest / f"{number:05d}.jpg").write_bytes(out.getvalue())


def tiny_block(paths: list[Path], count: int, number: int) -> np.ndarray:
    """Make some of the small images, (count, 32, 32, 3) uint8."""
    rng = np.random.default_rng([SEED, 2, number])
    block = np.empty((count, 32, 32, 3), np.uint8)
    for pixels in block:
        image = photograph(paths[int(rng.integers(len(paths)))])
        side = int(rng.integers(64, 400))
        left = int(rng.integers(0, image.width - side))
        top = int(rng.integers(0, image.height - side))
        box = (left, top, left + side, top + side)
        pixels[:] = np.asarray(image.resize((32, 32), Image.Resampling.BOX, box=box))
    return block


def write_pair(dest: Path, paths: list[Path], number: int) -> None:
    rng = np.random.default_rng([SEED, 3, number])
    size = PAIR_SIZES[rng.choice(len(PAIR_SIZES), p=[share for _, share in PAIR_SIZES])][0]
    image = part(rng, drawn(rng, paths), size, (1.0, 3.0))
    quality = int(rng.integers(88, 96))
    image.save(dest / "img" / f"{number:04d}.jpg", "JPEG", quality=quality, subsampling=2)
    small = np.asarray(image.resize((size[0] // 4, size[1] // 4), Image.Resampling.BOX))
    regions = slic(small, n_segments=60, compactness=5, start_label=0, channel_axis=-1)
    classes = rng.integers(0, 19, regions.max() + 1).astype(np.uint8)[regions]
    mask = Image.fromarray(classes).resize(size, Image.Resampling.NEAREST)
    mask.save(dest / "mask" / f"{number:04d}.png", "PNG")


def make(dest: Path, paths: list[Path]) -> None:
    """Write all three datasets."""
    for name in ("imagenet_like", "cifar_like", "seg_like/img", "seg_like/mask"):
        (dest / name).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        images, pairs, tiny = (dest / f"{name}_like" for name in ("imagenet", "seg", "cifar"))
        list(pool.map(partial(write_image, images, paths), range(IMAGES), chunksize=50))
        list(pool.map(partial(write_pair, pairs, paths), range(PAIRS), chunksize=20))
        blocks = pool.map(partial(tiny_block, paths, TINY_BLOCK), range(TINY // TINY_BLOCK))
        np.save(tiny / "images.npy", np.concatenate(list(blocks)))
    labels = np.random.default_rng([SEED, 4]).integers(0, 1000, IMAGES)
    np.save(images / "labels.npy", labels)
    np.save(tiny / "labels.npy", np.random.default_rng([SEED, 5]).integers(0, 10, TINY))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=Path)
    parser.add_argument("--photographs", type=Path, help="a folder with the packages unpacked")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.photographs is None:
            fetch(Path(folder))
        make(arguments.dest, locate(arguments.photographs or Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
