"""Values of a pipeline as files that people can open, every value kept.

An image becomes a PNG of the same pixels, a mask a PNG whose pixel values are its own and whose
palette shows them in colors, all else a `.npy`. Needs Pillow; runs in the process of a command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from stoker.protocol.replayed_row import ReplayValue

CHANNELS: Final = (1, 3, 4)


def palette() -> np.ndarray:
    """Return 256 colors, (256, 3) uint8, far apart for small numbers; 0 is black.

    The bits of a number are dealt to red, green and blue in turn, the lowest to the highest bit of
    each: the palette of PASCAL VOC.
    """
    numbers = np.arange(256)
    colors = np.zeros((256, 3), np.int64)
    for bit in range(8):
        colors[:, bit % 3] |= (numbers >> bit & 1) << (7 - bit // 3)
    return colors.astype(np.uint8)


def is_picture(array: np.ndarray) -> bool:
    """Return whether an array is (H, W, 1, 3 or 4) uint8."""
    return array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] in CHANNELS


def save(value: ReplayValue, stem: Path) -> Path:
    """Write a value next to others under a name without suffix; return the file."""
    array = value.array
    if is_picture(array):
        picture = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    elif value.kind == "mask" and array.dtype == np.uint8:
        picture = Image.fromarray(array)
        picture.putpalette(palette().tobytes())
    else:
        path = stem.with_name(stem.name + ".npy")
        np.save(path, array, allow_pickle=False)
        return path
    path = stem.with_name(stem.name + ".png")
    picture.save(path)
    return path
