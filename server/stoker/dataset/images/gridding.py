"""Rewriting of JPEGs on a grid before they are packed, with a check that the pixels stay the same.

The rewritten file is decoded again and compared with the original's pixels, byte for byte. A file
that cannot be rewritten is stored unchanged, with a note for its owner.
"""

from dataclasses import replace

import numpy as np

from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.images.inspection import Picture, Scratches
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.limits import CodecError


def with_grid(picture: Picture, scratch: Scratches) -> Picture:
    """Return the image rewritten on a grid, or unchanged with a note.

    Args:
        picture: an inspected image; only JPEGs are rewritten.
        scratch: memory; `scratch.pixels` still holds the image's pixels.
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
    return replace(picture, data=made.data, grid=grid, came_bytes=len(picture.data))


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Compare bytes, eight at once."""
    whole = a.size & ~7
    words, others = a[:whole].view(np.uint64), b[:whole].view(np.uint64)
    return np.array_equal(words, others) and np.array_equal(a[whole:], b[whole:])


def _as_it_came(picture: Picture, why: str) -> Picture:
    note = f"JPEG stored unchanged, so its crops are not faster: {why}"
    return replace(picture, notes=(*picture.notes, note))
