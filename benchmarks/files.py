"""What the files of a workload are. Read by every contender, so it needs nothing but NumPy."""

from pathlib import Path

import numpy as np


def photographs(source: Path) -> tuple[list[str], list[int]]:
    """Return the paths of `source/CLASS/NAME.jpg`, sorted, and the number of each one's class."""
    paths = sorted(source.glob("*/*.jpg"))
    classes = {name: number for number, name in enumerate(sorted({p.parent.name for p in paths}))}
    return [str(path) for path in paths], [classes[path.parent.name] for path in paths]


def pairs(source: Path) -> list[tuple[str, str]]:
    """Return (image, mask) paths of `source/images/NAME.jpg` and `source/masks/NAME.png`."""
    images = sorted((source / "images").glob("*.jpg"))
    return [(str(path), str(source / "masks" / f"{path.stem}.png")) for path in images]


def arrays(source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 32, 32, 3) uint8, mapped, and labels (n,) int64."""
    return np.load(source / "image.npy", mmap_mode="r"), np.load(source / "label.npy")
