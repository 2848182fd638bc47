"""Decode a box of a gridded JPEG to its place: splice, decode the small file, copy the box.

Runs in workers, in one thread per scratch memory. The pixels equal those of a whole decode; see
docs/contracts/jpeg-grid.md.
"""

import numpy as np

from stoker.dataset.images.codecs import ImageScratch, decode_jpeg
from stoker.dataset.images.jpeg import Splicer
from stoker.dataset.images.orientation import oriented, stored_box, upright_size

WORTH = 0.9
"""If the window is a larger part of the image than this, the whole image is decoded instead."""


class BoxScratch:
    """Memory of one thread: for turning images, for spliced files, and for windows of pixels."""

    def __init__(self) -> None:
        self.turned = ImageScratch()
        self.splicer = Splicer()
        self.pixels = ImageScratch()


def decode_boxed(
    data: memoryview,
    grid: memoryview,
    size: tuple[int, int],
    orientation: int,
    box: tuple[int, int, int, int],
    out: np.ndarray,
    scratch: BoxScratch,
) -> bool:
    """Decode a box to its place in `out`; False, without decoding, for most of the image.

    Args:
        data: the stored file.
        grid: its grid, the side column's bytes.
        size: (height, width), upright.
        orientation: EXIF orientation, 1..8.
        box: (top, left, height, width), upright, inside the image.
        out: (H, W, 3) uint8; only the box is written.
        scratch: memory.

    Raises:
        CodecError: the file is damaged, or the grid belongs to another image.
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
