"""Decode a JPEG at 1/2, 1/4 or 1/8 of its size, whole or as much of it as a box needs.

The pixels are those of libjpeg-turbo, whose scaled inverse DCT makes the reduced image from the
coefficients. Stoker's own decoder makes the same pixels of boxes of gridded files, if it is chosen;
libjpeg-turbo decodes the rest. Pixel i of an axis covers the stored pixels from i * divisor to
(i + 1) * divisor, so a reduced axis has ceil(side / divisor) pixels, and every box has the pixels
that it has in the whole reduced image. Runs in workers. See docs/contracts/decoder.md.
"""

from typing import Final

import numpy as np

from stoker.dataset.images.box_decoding import WORTH, BoxScratch, decode_own
from stoker.dataset.images.codecs import decode_jpeg, signature
from stoker.dataset.images.jpeg.decoding import is_own_decoder_chosen
from stoker.dataset.images.jpeg.decoding.choice import REDUCED
from stoker.dataset.images.jpeg.decoding.window import SCALED_MARGIN, touched_axis
from stoker.dataset.images.orientation import oriented, stored_box, upright_size

Box = tuple[int, int, int, int]
_LEAST_SIDE: Final = 9
"""Smaller images have one size at several fractions, which the library does not tell apart."""


def can_scale(data: memoryview, size: tuple[int, int], orientation: int, divisor: int) -> bool:
    """Return whether a file is decoded at a fraction.

    An axis that EXIF mirrors must be divisible: the pixels of its reduced form begin at the other
    end, so a rest would shift the image.

    Args:
        data: the stored file.
        size: (height, width), upright.
        orientation: EXIF orientation, 1..8.
        divisor: 1, 2, 4 or 8.
    """
    mirrored = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    rest = any(side % divisor for side, turns in zip(size, mirrored, strict=True) if turns)
    return divisor > 1 and max(size) >= _LEAST_SIDE and not rest and signature(data) == "jpeg"


def reduced(size: tuple[int, int], divisor: int) -> tuple[int, int]:
    """Return the size of a reduced image."""
    height, width = (touched_axis(0, side, divisor)[1] for side in size)
    return height, width


def decode_scaled(
    data: memoryview,
    size: tuple[int, int],
    orientation: int,
    divisor: int,
    out: np.ndarray,
    scratch: BoxScratch,
) -> np.ndarray:
    """Decode a whole file for which `can_scale` is true.

    Args:
        data: the stored file.
        size: (height, width), upright.
        orientation: EXIF orientation, 1..8.
        divisor: 2, 4 or 8.
        out: flat uint8 memory for the reduced image.
        scratch: memory.

    Returns:
        A view of `out`: (ceil(height / divisor), ceil(width / divisor), 3), upright.

    Raises:
        CodecError: the file is damaged or has another size.
    """
    after = reduced(size, divisor)
    total = 3 * after[0] * after[1]
    target = out[:total].reshape(*after, 3)
    memory = out[:total] if orientation == 1 else scratch.turned.take(total)
    pixels = decode_jpeg(data, "image", upright_size(*size, orientation), memory, divisor)
    if orientation != 1:
        np.copyto(target, oriented(pixels, orientation))
    return target


def decode_scaled_box(
    data: memoryview,
    grid: memoryview,
    size: tuple[int, int],
    orientation: int,
    divisor: int,
    box: Box,
    out: np.ndarray,
    scratch: BoxScratch,
) -> np.ndarray | None:
    """Decode a box of a gridded file to its place.

    None, without decoding, if libjpeg-turbo must decode it and it is most of the image.

    Args:
        data: as for `decode_scaled`.
        grid: its grid, the side column's bytes.
        size: as for `decode_scaled`.
        orientation: as for `decode_scaled`.
        divisor: as for `decode_scaled`.
        box: (top, left, height, width), upright, inside the image.
        out: as for `decode_scaled`.
        scratch: memory.

    Returns:
        As `decode_scaled`; pixels that the box does not touch are undefined.

    Raises:
        CodecError: the file is damaged, or the grid belongs to another image.
    """
    stored = upright_size(*size, orientation)
    inner = stored_box(box, stored, orientation)
    most, place = int(WORTH * stored[0] * stored[1]), touched(box, divisor)
    high, wide = reduced(size, divisor)
    target = out[: 3 * high * wide].reshape(high, wide, 3)
    if is_own_decoder_chosen(grid, REDUCED) and decode_own(
        data, grid, (stored, inner, most), orientation, place, target, scratch, divisor
    ):
        return target
    wider = _with_margin(inner, stored, SCALED_MARGIN * divisor)
    window = scratch.splicer.cut(data, grid, stored, wider, most)
    if window is None:
        return None
    after = reduced((window.height, window.width), divisor)
    memory = scratch.pixels.take(3 * after[0] * after[1])
    pixels = decode_jpeg(window.file.data, "image", (window.height, window.width), memory, divisor)
    y, x, rows, columns = touched(inner, divisor)
    y, x = y - window.top // divisor, x - window.left // divisor
    part = oriented(pixels[y : y + rows, x : x + columns], orientation)
    y, x, rows, columns = place
    target[y : y + rows, x : x + columns] = part
    return target


def touched(box: Box, divisor: int) -> Box:
    """Return the box of the reduced pixels that a box touches."""
    y, rows = touched_axis(box[0], box[2], divisor)
    x, columns = touched_axis(box[1], box[3], divisor)
    return y, x, rows, columns


def _with_margin(box: Box, size: tuple[int, int], margin: int) -> Box:
    """Return a box with more around it, inside the image.

    Smoothing of chroma reads the next sample, of 2 * divisor pixels at most, and is left out in an
    image with fewer than three of them across: a window with the margin has as many as the image.
    """
    top, left = max(box[0] - margin, 0), max(box[1] - margin, 0)
    bottom = min(box[0] + box[2] + margin, size[0])
    right = min(box[1] + box[3] + margin, size[1])
    return top, left, bottom - top, right - left
