"""Decoder contract v1: decode an image or mask to the same pixels everywhere.

JPEGs are decoded by libjpeg-turbo with islow DCT and fancy upsampling (simplejpeg's defaults),
strictly: warnings of the decoder (truncation above all) are errors. It writes directly into the
caller's memory; an image that EXIF turns is decoded into scratch memory and copied upright. For PNG
see `images.png`. Sizes are known beforehand from side columns; a file that decodes to another size
is damaged. Runs in workers and does not depend on datasets. docs/contracts/decoder.md is the
specification.
"""

import numpy as np
import simplejpeg

from stoker.dataset.images.jpeg.frame import read_frame
from stoker.dataset.images.orientation import oriented, upright_size
from stoker.dataset.images.png import SIGNATURE as PNG_SIGNATURE
from stoker.dataset.images.png import decode_png
from stoker.dataset.limits import CodecError, check_pixels

JPEG_SIGNATURE = b"\xff\xd8\xff"
CHANNELS = {"image": 3, "mask": 1}
_SAMPLING = "subsampling"
"""Part of the message for a sampling without a name in TurboJPEG."""


class SamplingError(CodecError):
    """A JPEG whose sampling the decoder does not take."""


class ImageScratch:
    """Memory for images before they are turned; grows to the largest one and never shrinks."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size_bytes: int) -> np.ndarray:
        """Return that many bytes, valid until the next call."""
        if self._memory.size < size_bytes:
            self._memory = np.empty(size_bytes, np.uint8)
        return self._memory[:size_bytes]


def signature(data: bytes | memoryview) -> str | None:
    """Return the encoding by the first bytes: "jpeg", "png" or None."""
    view = memoryview(data)
    if view[:3] == JPEG_SIGNATURE:
        return "jpeg"
    return "png" if view[:8] == PNG_SIGNATURE else None


def decode_picture(
    data: bytes | memoryview,
    kind: str,
    size: tuple[int, int],
    orientation: int,
    out: np.ndarray,
    scratch: ImageScratch,
) -> np.ndarray:
    """Decode a JPEG or PNG upright into `out`.

    Args:
        data: the file's bytes.
        kind: "image" or "mask".
        size: (height, width) after orientation.
        orientation: EXIF orientation, 1..8.
        out: flat uint8 memory, at least height * width * channels long.
        scratch: memory for images that must be turned.

    Returns:
        A contiguous view of `out`: (H, W, 3) for images, (H, W) for masks.

    Raises:
        CodecError: the bytes are damaged, or have another encoding or size.
    """
    shape = (*size, 3) if kind == "image" else size
    total = size[0] * size[1] * CHANNELS[kind]
    target = out[:total].reshape(shape)
    stored = upright_size(*size, orientation)
    encoding = signature(data)
    if encoding == "png":
        np.copyto(target, oriented(decode_png(data, kind, stored), orientation))
    elif encoding == "jpeg":
        memory = out[:total] if orientation == 1 else scratch.take(total)
        pixels = decode_jpeg(data, kind, stored, memory)
        if orientation != 1:
            np.copyto(target, oriented(pixels, orientation))
    else:
        raise CodecError("it is neither a JPEG nor a PNG")
    return target


def read_jpeg_size(data: bytes | memoryview) -> tuple[int, int]:
    """Read (height, width) as stored from the header, and apply the pixel limit.

    Raises:
        SamplingError: the decoder does not take such files.
        CodecError: the header is damaged, or the image is too large.
    """
    try:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    except KeyError:  # 4:4:1 is decoded, but simplejpeg has no name for it
        height, width, _ = read_frame(data)
    except ValueError as error:
        if _SAMPLING not in str(error):
            raise CodecError(f"its header is damaged: {_plain(error)}") from None
        raise SamplingError(
            f"the sampling factors of its components are {read_frame(data)}, which the decoder "
            "does not take; pack the source, which turns such a file into PNG, or convert it"
        ) from None
    check_pixels(height, width)
    return height, width


def decode_jpeg(
    data: bytes | memoryview,
    kind: str,
    expected: tuple[int, int],
    memory: np.ndarray,
    divisor: int = 1,
) -> np.ndarray:
    """Decode a JPEG as stored, directly into `memory`: (H, W, 3) uint8.

    With a divisor of 2, 4 or 8 both sides are divided by it, and rounded up.

    Raises:
        CodecError: the file is damaged, has another size, or should be a mask.
    """
    if kind == "mask":
        raise CodecError(
            "it is a JPEG, which changes values, but a mask holds exact class indices; use PNG "
            "masks"
        )
    if divisor > 1:  # several sizes are one after division
        _check_size(read_jpeg_size(data), expected)
    height, width = -(-expected[0] // divisor), -(-expected[1] // divisor)
    least = {"min_height": height, "min_width": width, "min_factor": divisor}
    try:  # only `memory` is written, so the size need not be read first
        pixels: np.ndarray = simplejpeg.decode_jpeg(
            data, buffer=memory, **least if divisor > 1 else {}
        )
    except ValueError as error:
        _check_size(read_jpeg_size(data), expected)
        raise CodecError(f"it is damaged: {_plain(error)}") from None
    _check_size(pixels.shape, (height, width))
    return pixels


def _check_size(found: tuple[int, ...], expected: tuple[int, int]) -> None:
    if found[:2] != expected:
        raise CodecError(f"expected {expected[0]}x{expected[1]} pixels, got {found[0]}x{found[1]}")


def _plain(error: ValueError) -> str:
    """Return the decoder's message without the name of its function."""
    return str(error).rpartition("(): ")[2]
