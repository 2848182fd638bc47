"""JPEGs on their way into a dataset: rewritten on a grid, and proved to show the same pixels.

What is rewritten is decoded once more and compared with the original, byte for byte. A file that
cannot be rewritten is stored as it came, with a note for its owner.
"""

from dataclasses import replace

import numpy as np

from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.images.inspect import Picture, Scratches
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.limits import CodecError


def with_grid(picture: Picture, scratch: Scratches) -> Picture:
    """Return the picture rewritten on a grid, or as it came with a note.

    Args:
        picture: an image as it was inspected; only JPEGs are rewritten.
        scratch: memory; `scratch.pixels` still holds the picture's pixels.
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
    if not np.array_equal(pixels, again):
        return _as_it_came(picture, "decoders repair it in ways of their own")
    grid = made.grid.to_bytes()
    return replace(picture, data=made.data, grid=grid, came_bytes=len(picture.data))


def _as_it_came(picture: Picture, why: str) -> Picture:
    note = f"JPEG stored as it came, so that crops of it are no faster: {why}"
    return replace(picture, notes=(*picture.notes, note))
