"""Boxes of sources that reach out of their picture: a little by rounding, or for good.

Tools write coordinates with few digits, so that boxes at an edge reach over it by a fraction of a
pixel. Such are moved to the edge, and counted. What reaches further is refused, or clipped if the
user asks for that; what then has no area left is left out.
"""

import numpy as np


def clip_boxes(
    corners: np.ndarray, most: tuple[float, float], slack: float, asked: bool
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Clip boxes to their picture.

    Args:
        corners: (n, 4) float64, left, top, right and bottom.
        most: largest x and y.
        slack: how far a box may reach out by rounding.
        asked: whether boxes that reach further are clipped, or left out where nothing remains.

    Returns:
        The boxes, which of them are kept, and the numbers of those that cannot be: not finite, of
        negative size, or, unless clipping was asked for, outside by more than the slack.
    """
    limit = np.array([*most, *most], np.float64)
    clipped = np.clip(corners, 0, limit)
    bad = ~np.isfinite(corners).all(axis=1) | (corners[:, 2:] < corners[:, :2]).any(axis=1)
    over = (np.abs(clipped - corners) > slack).any(axis=1)
    if not asked:
        return clipped, np.ones(len(corners), bool), np.flatnonzero(bad | over).tolist()
    empty = (clipped[:, 2:] <= clipped[:, :2]).any(axis=1)
    return clipped, ~(over & empty), np.flatnonzero(bad).tolist()
