"""Check that the batches of two contenders agree up to random draws: compares `epochs.summary`.

Means are taken over whole epochs, for each channel, in bands of rows. They reveal a wrong order of
channels, an image upside down, another normalization or a missing crop, but not another filter.
"""

from typing import Any

import numpy as np

TOLERANCE = 0.015
"""Allowed difference of means of random crops, as a fraction of the range of values. 0.005 of it is
for the fast DCT of FFCV and tf.data, whose images are darker by that much."""


def compare(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the differences in words; empty if the two do the same work."""
    faults = [
        f"{what} {other[what]} instead of {first[what]}"
        for what in ("images", "shape", "dtype", "masks")
        if other[what] != first[what]
    ]
    reach = first["high"] - first["low"]
    apart = np.abs(np.subtract(first["means"], other["means"])).max() / reach
    if not apart <= TOLERANCE:
        faults.append(f"means differ by {apart:.1%} of the range, more than {TOLERANCE:.1%}")
    return faults
