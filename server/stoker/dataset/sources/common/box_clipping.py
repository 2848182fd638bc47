"""Boxes of sources that extend beyond their image: by rounding, or by more.

Tools write coordinates with few digits, so that boxes at an edge extend over it by a fraction of a
pixel. Such boxes are moved to the edge, and counted. Boxes that extend further are bad, or, if the
user asks for it, clipped; those without any area left are then left out, and counted too.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

MOVED = "boxes moved to the edge of their image"
LEFT_OUT = "boxes left out because they are wholly outside of their image"
POINTS_LEFT_OUT = "keypoints left out because they are outside of their image"


@dataclass(frozen=True)
class Clipped:
    """Boxes after clipping.

    Attributes:
        corners: (n, 4) float64, left, top, right and bottom, of all boxes.
        kept: (n,) bool, those with a part inside.
        moved: number of the kept boxes that were moved to the edge.
        negative: numbers of the boxes of negative size, or that are not finite; bad in any case.
        outside: numbers of the other boxes that are outside by more than the slack, if the user
            did not ask to clip.
    """

    corners: np.ndarray
    kept: np.ndarray
    moved: int
    negative: list[int]
    outside: list[int]


def clip_boxes(
    corners: np.ndarray, most: tuple[float, float], slack: float, asked: bool
) -> Clipped:
    """Clip boxes to their image.

    Args:
        corners: (n, 4) float64, left, top, right and bottom.
        most: largest x and y.
        slack: how far a box may extend by rounding.
        asked: whether boxes that extend further are clipped, or left out if nothing remains.
    """
    limit = np.array([*most, *most], np.float64)
    clipped = np.clip(corners, 0, limit)
    negative = ~np.isfinite(corners).all(axis=1) | (corners[:, 2:] < corners[:, :2]).any(axis=1)
    over = (np.abs(clipped - corners) > slack).any(axis=1)
    kept = np.ones(len(corners), bool)
    if asked:
        kept = ~(over & (clipped[:, 2:] <= clipped[:, :2]).any(axis=1))
        over[:] = False
    return Clipped(
        clipped,
        kept,
        int((clipped != corners).any(axis=1)[kept].sum()),
        np.flatnonzero(negative).tolist(),
        np.flatnonzero(over & ~negative).tolist(),
    )


class Changes:
    """Changes to annotations: how many of each sort, and in which files."""

    def __init__(self) -> None:
        self._pending: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._names: dict[str, list[str]] = {}

    def add(self, what: str, count: int = 1) -> None:
        """Count changes to the annotations of one file, until `keep` or `drop`."""
        self._pending[what] += count

    def add_boxes(self, clipped: Clipped) -> None:
        """Count the boxes that were moved, and those that were left out."""
        self.add(MOVED, clipped.moved)
        self.add(LEFT_OUT, int((~clipped.kept).sum()))

    def keep(self, name: str) -> None:
        """Note what was counted, under the name of the file."""
        for what, count in self._pending.items():
            if count:
                self._counts[what] += count
                self._names.setdefault(what, []).append(name)
        self._pending.clear()

    def drop(self) -> None:
        """Forget what was counted: the sample is bad."""
        self._pending.clear()

    def notes(self) -> Mapping[str, list[str]]:
        """Return the notes of a scan: sorts of changes with their counts -> names of the files."""
        return {
            f"{what} ({self._counts[what]} in all)": names for what, names in self._names.items()
        }
