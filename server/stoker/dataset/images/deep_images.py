"""Decode image files of one channel and more than 8 bits: masks of instances, X-rays, CT, depth.

A PNG or TIFF of 8, 16 or 32 bits, or a TIFF of floats. The numbers stay as they are in the file; a
number that does not fit the field raises. An image of uint16 takes no file of 8 bits: white would
be 255 of 65535. Runs in packing workers.
"""

import io
from typing import Final

import numpy as np
from PIL import ImageFile, ImageOps, PngImagePlugin, TiffImagePlugin

from stoker.dataset.images.png import SIGNATURE, check_rows, read_png_header
from stoker.dataset.limits import CodecError, check_pixels

_MODES: Final = ("1", "L", "P", "I;16", "I;16B", "I", "F")
_SHORT: Final = ("1", "L", "P")
"""Modes of at most 8 bits."""
_TIFF: Final = (b"II*\0", b"MM\0*")


def decode_deep(data: bytes, kind: str, dtype: str, keep: bool = False) -> np.ndarray:
    """Return the numbers of a file: (H, W) of a mask, (H, W, 1) of an image.

    Args:
        data: the file's bytes.
        kind: "image" or "mask".
        dtype: of the field: uint16 or int32 for a mask, uint16, int16 or float32 for an image.
        keep: leave the pixels as stored; otherwise they are turned upright by EXIF.

    Raises:
        CodecError: it is not a PNG or TIFF of one channel, is damaged, or has numbers that do not
            fit.
    """
    png = data[:8] == SIGNATURE
    if not png and data[:4] not in _TIFF:
        raise CodecError(f"expected a PNG or TIFF, of which {dtype} can be read, got another file")
    if png:
        check_rows(data, read_png_header(data))
    try:
        opener = PngImagePlugin.PngImageFile if png else TiffImagePlugin.TiffImageFile
        picture = opener(io.BytesIO(data))
        check_pixels(picture.height, picture.width)
        _check_mode(picture, kind, dtype)
        values = np.asarray(picture if keep else ImageOps.exif_transpose(picture))
    except CodecError:
        raise
    except Exception as error:  # Pillow raises a dozen types on damaged files
        raise CodecError(f"it is damaged: {error}") from None
    if kind == "image":
        if values.dtype.kind == "f" and dtype != "float32":
            raise CodecError(
                f"expected whole numbers for {dtype}, got floats; declare image[float32]"
            )
        exact = values.astype(dtype)
        if values.dtype.kind in "iu" and not np.array_equal(exact.astype(np.int64), values):
            raise CodecError(f"its numbers do not fit {dtype} exactly")
        return exact[..., None]
    if values.dtype.kind == "f":
        raise CodecError("expected whole numbers in a mask, got floats")
    return values


def _check_mode(picture: ImageFile.ImageFile, kind: str, dtype: str) -> None:
    if picture.mode not in _MODES or getattr(picture, "n_frames", 1) != 1:
        raise CodecError(f"expected one frame of one channel, got mode {picture.mode}")
    if (kind, dtype) == ("image", "uint16") and picture.mode in _SHORT:
        raise CodecError(
            "expected 16 bits per channel, with levels from 0 to 65535, got a file of 8 bits, "
            "whose white is 255; multiply its levels by 257, or pack files of 8 bits by "
            "themselves with --field NAME=image"
        )
