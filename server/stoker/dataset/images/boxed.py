"""A box of a gridded JPEG, decoded to its place: splice, decode the small file, copy the box.

Runs in workers, on one thread for each scratch. Its pixels are those of a whole decode; see
docs/contracts/jpeg-grid.md.
"""

import numpy as np

from stoker.dataset.images.codecs import Scratch, decode_jpeg
from stoker.dataset.images.jpeg import Splicer
from stoker.dataset.images.orientation import oriented, stored_box, upright_size

WORTH = 0.9
"""A window of more than this part of the picture is decoded whole: no copies, no bookkeeping."""


class BoxScratch:
    """Memory of one thread: for pictures to be turned, spliced files, and windows of pixels."""

    def __init__(self) -> None:
        self.turned = Scratch()
        self.splicer = Splicer()
        self.pixels = Scratch()


def decode_boxed(
    data: memoryview,
    grid: memoryview,
    size: tuple[int, int],
    orientation: int,
    box: tuple[int, int, int, int],
    out: np.ndarray,
    scratch: BoxScratch,
) -> bool:
    """Decode a box to its place in `out`; False if it is most of the picture, and nothing is done.

    Args:
        data: the stored file.
        grid: its grid, the side column's bytes.
        size: (height, width), upright.
        orientation: EXIF orientation, 1..8.
        box: (top, left, height, width), upright, inside the picture.
        out: (H, W, 3) uint8; only the box is written.
        scratch: memory.

    Raises:
        CodecError: the file is damaged, or its grid is that of another picture.
    """
    stored = upright_size(*size, orientation)
    inner = stored_box(box, stored, orientation)
    window = scratch.splicer.cut(data, grid, stored, inner, int(WORTH * stored[0] * stored[1]))
    if window is None:
        return False
    memory = scratch.pixels.take(3 * window.height * window.width)
    pixels = decode_jpeg(window.file.data, "image", (window.height, window.width), memory)
    y, x = inner[0] - window.top, inner[1] - window.left
    part = oriented(pixels[y : y + inner[2], x : x + inner[3]], orientation)
    out[box[0] : box[0] + box[2], box[1] : box[1] + box[3]] = part
    return True
