"""Sample a row of an image at positions that lie in memory, one for each pixel.

Positions are `stoker.ops.warp`'s: places in the source in units of 2**-24 pixels. What lies outside
of the source is filled. For warps whose positions follow no line.
"""

from typing import Any

import numpy as np

from stoker.ops.cut import fill_run
from stoker.ops.warp import BITS, sample
from stoker.rng.jit import kernel


@kernel
def sample_row(src: Any, dst: Any, y: int, places: Any, bilinear: int, fill: Any) -> None:
    """Write one row.

    Args:
        src: `(H, W, C)` of any dtype, contiguous; uint8 for bilinear.
        dst: `(h, w, C)` of the same dtype, contiguous.
        y: the row of `dst`.
        places: (across, down): positions in the source, `(w,) int64` each.
        bilinear: 1, or 0 for nearest.
        fill: at least C values.
    """
    across, down = places
    height, width, channels = src.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    for x in range(dst.shape[1]):
        at = (y * dst.shape[1] + x) * channels
        if 0 <= across[x] < width << BITS and 0 <= down[x] < height << BITS:
            sample(image, src.shape, across[x], down[x], bilinear, result, np.uint64(at))
        else:
            fill_run(result, at, 1, channels, fill)
