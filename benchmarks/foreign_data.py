"""The data layout of `make_mixed_data.py`: flat folders with separate label files.

`imagenet_like/NAME.jpg` and `labels.npy`, `cifar_like/images.npy` and `labels.npy`,
`seg_like/img/NAME.jpg` and `seg_like/mask/NAME.png`. Hard links give the same files the layout that
every contender reads. So nothing is copied, and all contenders read the same files.
"""

import os
from pathlib import Path

import numpy as np


def is_foreign(data: Path) -> bool:
    """Return whether a folder has this layout."""
    return any((data / name).is_dir() for name in ("imagenet_like", "cifar_like", "seg_like"))


def arrange(data: Path, what: str) -> None:
    """Link `data/what`: `images`, `pairs` or `tiny`, in the layout of `make_data.py`."""
    {"images": _images, "pairs": _pairs, "tiny": _tiny}[what](data, data / what)


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    os.link(file, place)


def _images(data: Path, dest: Path) -> None:
    files = sorted((data / "imagenet_like").glob("*.jpg"))
    labels = np.load(data / "imagenet_like" / "labels.npy")
    for file, label in zip(files, labels, strict=True):
        _link(file, dest / f"{label:04d}" / file.name)


def _pairs(data: Path, dest: Path) -> None:
    for file in sorted((data / "seg_like" / "img").glob("*.jpg")):
        mask = file.with_suffix(".png").name
        _link(file, dest / "images" / file.name)
        _link(data / "seg_like" / "mask" / mask, dest / "masks" / mask)


def _tiny(data: Path, dest: Path) -> None:
    for theirs, ours in (("images", "image"), ("labels", "label")):
        _link(data / "cifar_like" / f"{theirs}.npy", dest / f"{ours}.npy")
