"""Sizes of images for random tests."""

import numpy as np


def size_of(seed: int) -> tuple[int, int]:
    """A height and width from 1 to 199."""
    height, width = np.random.default_rng(seed).integers(1, 200, 2)
    return int(height), int(width)
