"""Decode a box of a gridded JPEG to its place, in one of two ways with the same pixels.

Stoker's own decoder takes intervals as they are stored (`jpeg.decoding`). Otherwise the box's
intervals are spliced to a small file, which libjpeg-turbo decodes, and the box is copied. So are
files that the decoder does not cover, and all if `jpeg.decoding.choice` says so. Bit planes have no
other way than Stoker's own decoder. Runs in workers,
in one thread per scratch memory. See docs/contracts/jpeg-grid.md and docs/jpeg-decoding.md.
"""

import functools

import numpy as np

from stoker.dataset.images.codecs import ImageScratch, decode_jpeg
from stoker.dataset.images.jpeg import Splicer
from stoker.dataset.images.jpeg.decoding import BoxDecoder, is_own_decoder_chosen
from stoker.dataset.images.jpeg.planes.plane_form import is_planes
from stoker.dataset.images.orientation import oriented, stored_box, upright_size
from stoker.dataset.limits import CodecError

WORTH = 0.9
"""If the window is a larger part of the image than this, the whole image is decoded instead."""

NO_PLANES = "its bit planes are damaged: its head or its grid has another form"


class BoxScratch:
    """Memory of one thread: for turning images, for spliced files, and for windows of pixels."""

    def __init__(self) -> None:
        self.turned = ImageScratch()
        self.splicer = Splicer()
        self.pixels = ImageScratch()

    @functools.cached_property
    def decoder(self) -> BoxDecoder:
        """The decoder's memory, made when it is needed."""
        return BoxDecoder()


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
    stored, inner = size, box
    if orientation != 1:
        stored = upright_size(*size, orientation)
        inner = stored_box(box, stored, orientation)
    most = int(WORTH * stored[0] * stored[1])
    planes = is_planes(data)
    if (planes or is_own_decoder_chosen(grid)) and decode_own(
        data, grid, (stored, inner, most), orientation, box, out, scratch
    ):
        return True
    if planes:
        raise CodecError(NO_PLANES)
    window = scratch.splicer.cut(data, grid, stored, inner, most)
    if window is None:
        return False
    memory = scratch.pixels.take(3 * window.height * window.width)
    pixels = decode_jpeg(window.file.data, "image", (window.height, window.width), memory)
    y, x = inner[0] - window.top, inner[1] - window.left
    part = oriented(pixels[y : y + inner[2], x : x + inner[3]], orientation)
    out[box[0] : box[0] + box[2], box[1] : box[1] + box[3]] = part
    return True


def decode_gridded(
    data: memoryview,
    grid: memoryview,
    size: tuple[int, int],
    orientation: int,
    out: np.ndarray,
    scratch: BoxScratch,
) -> bool:
    """Decode a whole gridded JPEG with Stoker's own decoder; False if libjpeg-turbo must do it.

    Arguments are as for `decode_boxed`. A damaged grid is no error, as a whole decode needs none.

    Raises:
        CodecError: the file is damaged.
    """
    if not (is_planes(data) or is_own_decoder_chosen(grid)):
        return False
    stored = upright_size(*size, orientation)
    asked = stored, (0, 0, *stored), 0
    return decode_own(data, grid, asked, orientation, (0, 0, *size), out, scratch)


def decode_own(
    data: memoryview,
    grid: memoryview,
    asked: tuple[tuple[int, int], tuple[int, int, int, int], int],
    orientation: int,
    box: tuple[int, int, int, int],
    out: np.ndarray,
    scratch: BoxScratch,
    divisor: int = 1,
) -> bool:
    """Decode with Stoker's own decoder, if it covers the file: directly to `out` if upright.

    Args:
        data: the stored file.
        grid: its grid, the side column's bytes.
        asked: (size, box, most) as stored, see `BoxDecoder.decode`.
        orientation: EXIF orientation, 1..8.
        box: (top, left, height, width) in pixels of `out`.
        out: (H, W, 3) uint8, upright, of the reduced image; only the box is written.
        scratch: memory.
        divisor: 1, 2, 4 or 8: what both sides of the image are divided by.

    Raises:
        CodecError: the file is damaged, or the grid belongs to another image.
    """
    top, left, height, width = box
    decode = scratch.decoder.decode
    if orientation == 1:
        line = 3 * out.shape[1]
        target = out.reshape(-1), top * line + 3 * left, line
        return decode(data, grid, *asked, target, divisor)
    memory = scratch.pixels.take(3 * height * width)
    rows, columns = upright_size(height, width, orientation)
    if not decode(data, grid, *asked, (memory, 0, 3 * columns), divisor):
        return False
    pixels = memory.reshape(rows, columns, 3)
    out[top : top + height, left : left + width] = oriented(pixels, orientation)
    return True
