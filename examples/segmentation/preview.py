"""Draw a batch: each augmented image, and next to it the image with its mask drawn over it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from segmentation import MEAN, STD

PALETTE = np.array(
    [[230, 25, 75], [60, 180, 75], [255, 225, 25], [0, 130, 200], [245, 130, 48], [145, 30, 180]],
    np.float32,
)
GAP = 4


def denormalized(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn (B, 3, H, W) normalized images into (B, H, W, 3) levels from 0 to 255."""
    pixels = images.transpose(0, 2, 3, 1) * np.float32(STD) + np.float32(MEAN)
    return np.clip(pixels * 255, 0, 255)


def sheet(
    images: NDArray[np.float32], masks: NDArray[np.uint8], columns: int = 4
) -> NDArray[np.uint8]:
    """Return the contact sheet (H, W, 3) uint8 of a batch, `columns` pairs per line."""
    pixels = denormalized(images)
    over = 0.5 * pixels + 0.5 * PALETTE[masks % len(PALETTE)]
    pairs = np.concatenate([pixels, over], axis=2).astype(np.uint8)
    cells = np.pad(pairs, ((0, 0), (0, GAP), (0, GAP), (0, 0)), constant_values=255)
    lines = len(cells) // columns
    count, height, width, _ = cells[: lines * columns].shape
    grid = cells[:count].reshape(lines, columns, height, width, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(lines * height, columns * width, 3)


def write(path: Path, images: NDArray[np.float32], masks: NDArray[np.uint8]) -> None:
    """Write the contact sheet of a batch as a PNG."""
    Image.fromarray(sheet(images, masks)).save(path)
