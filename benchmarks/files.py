"""The files of a workload. Every contender reads them here, so this needs only NumPy."""

from pathlib import Path

import numpy as np


def photographs(source: Path) -> tuple[list[str], list[int]]:
    """Return the paths of `source/CLASS/NAME.jpg`, sorted, and their class numbers."""
    paths = sorted(source.glob("*/*.jpg"))
    classes = {name: number for number, name in enumerate(sorted({p.parent.name for p in paths}))}
    return [str(path) for path in paths], [classes[path.parent.name] for path in paths]


def pairs(source: Path) -> list[tuple[str, str]]:
    """Return (image, mask) paths of `source/images/NAME.jpg` and `source/masks/NAME.png`."""
    images = sorted((source / "images").glob("*.jpg"))
    return [(str(path), str(source / "masks" / f"{path.stem}.png")) for path in images]


def arrays(source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 32, 32, 3) uint8, memory-mapped, and labels (n,) int64."""
    return np.load(source / "image.npy", mmap_mode="r"), np.load(source / "label.npy")
