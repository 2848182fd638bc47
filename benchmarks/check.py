"""Whether two contenders' batches hold the same, whatever was drawn: `epochs.summary` compared.

Means are taken over whole epochs, for each channel, in bands of rows: a wrong order of channels, a
picture upside down, another normalisation or no crop at all shows. A filter does not.
"""

from typing import Any

import numpy as np

TOLERANCE = 0.015
"""Of the range of values: what means of random crops may differ by. Of it 0.005 is the fast DCT, by
which FFCV and tf.data decode, and which is darker by as much."""


def compare(first: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return in words what differs; nothing, if the two do the same work."""
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
