"""Rewriting of JPEGs on a grid before they are packed, with a check that the pixels stay the same.

The rewritten file is decoded again and compared with the original's pixels, byte for byte. A file
that cannot be rewritten is stored unchanged, with a note for its owner.
"""

from dataclasses import replace

import numpy as np
import simplejpeg

from stoker.dataset.images.box_decoding import BoxScratch, decode_gridded
from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.images.inspection import Picture, Scratches
from stoker.dataset.images.jpeg import Rewritten, rewrite
from stoker.dataset.images.jpeg.planes.plane_files import to_planes
from stoker.dataset.limits import CodecError


def with_grid(picture: Picture, scratch: Scratches, planes: bool = False) -> Picture:
    """Return the image rewritten on a grid, or unchanged with a note.

    Args:
        picture: an inspected image; only JPEGs are rewritten.
        scratch: memory; `scratch.pixels` still holds the image's pixels.
        planes: store bit planes instead, where they can be decoded.
    """
    if picture.encoding != "jpeg":
        return picture
    try:
        made = rewrite(picture.data)
    except CodecError as error:
        return _as_it_came(picture, str(error))
    size = picture.height, picture.width
    pixels = scratch.pixels.take(picture.height * picture.width * 3)
    again = scratch.again.take(pixels.size)
    decode_picture(made.data, "image", size, picture.orientation, again, scratch.turned)
    if not _are_equal(pixels, again):
        return _as_it_came(picture, "decoders repair it in different ways")
    grid = made.grid.to_bytes()
    gridded = replace(picture, data=made.data, grid=grid, came_bytes=len(picture.data))
    return _as_planes(gridded, made, scratch) if planes else gridded


def _as_planes(picture: Picture, made: Rewritten, scratch: Scratches) -> Picture:
    """Return a gridded image as bit planes, or as it is with a note."""
    other = to_planes(made)
    if other is not None:
        size, grid = (picture.height, picture.width), other.grid.to_bytes()
        pixels = scratch.pixels.take(3 * size[0] * size[1])
        again = scratch.again.take(pixels.size)
        views = memoryview(other.data), memoryview(grid)
        whole = again.reshape(*size, 3)
        shown = decode_gridded(*views, size, picture.orientation, whole, scratch.boxes)
        if shown and _are_equal(pixels, again):
            return replace(picture, data=other.data, grid=grid)
    note = "JPEG stored without bit planes, which its form does not allow"
    return replace(picture, notes=(*picture.notes, note))


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Compare bytes, eight at once."""
    whole = a.size & ~7
    words, others = a[:whole].view(np.uint64), b[:whole].view(np.uint64)
    return np.array_equal(words, others) and np.array_equal(a[whole:], b[whole:])


def _as_it_came(picture: Picture, why: str) -> Picture:
    note = f"JPEG stored unchanged, so its crops are not faster: {why}"
    return replace(picture, notes=(*picture.notes, note))


def compile_planes() -> None:
    """Compile what packing of bit planes needs into the cache on disk, once for all workers."""
    data = simplejpeg.encode_jpeg(np.zeros((16, 16, 3), np.uint8))
    made = to_planes(rewrite(data))
    assert made is not None
    views = memoryview(made.data), memoryview(made.grid.to_bytes())
    decode_gridded(*views, (16, 16), 1, np.zeros((16, 16, 3), np.uint8), BoxScratch())
