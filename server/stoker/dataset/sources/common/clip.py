"""Boxes of sources that extend beyond their image: by rounding, or by more.

Tools write coordinates with few digits, so that boxes at an edge extend over it by a fraction of a
pixel. Such boxes are moved to the edge, and counted. Boxes that extend further are bad, or, if the
user asks for it, clipped; those without any area left are then left out.
"""

import numpy as np


def clip_boxes(
    corners: np.ndarray, most: tuple[float, float], slack: float, asked: bool
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Clip boxes to their image.

    Args:
        corners: (n, 4) float64, left, top, right and bottom.
        most: largest x and y.
        slack: how far a box may extend by rounding.
        asked: whether boxes that extend further are clipped, or left out if nothing remains.

    Returns:
        The boxes, which of them are kept, and the numbers of the invalid ones: not finite, of
        negative size, or, without `asked`, outside by more than the slack.
    """
    limit = np.array([*most, *most], np.float64)
    clipped = np.clip(corners, 0, limit)
    bad = ~np.isfinite(corners).all(axis=1) | (corners[:, 2:] < corners[:, :2]).any(axis=1)
    over = (np.abs(clipped - corners) > slack).any(axis=1)
    if not asked:
        return clipped, np.ones(len(corners), bool), np.flatnonzero(bad | over).tolist()
    empty = (clipped[:, 2:] <= clipped[:, :2]).any(axis=1)
    return clipped, ~(over & empty), np.flatnonzero(bad).tolist()
