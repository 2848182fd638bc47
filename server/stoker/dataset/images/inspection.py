"""Inspection of an image file before it is packed: decoded once, so that every stored file decodes.

Files are stored unchanged. Only formats outside the decoder contract (BMP, GIF, TIFF, WebP, ...,
JPEGs of unusual sampling, and 16-bit masks that fit 8 bits) are converted to PNG without loss, with
a note for the owner. A
file that cannot be decoded, or would lose information, is rejected with the reason.
"""

from dataclasses import dataclass

from stoker.dataset.images.box_decoding import BoxScratch
from stoker.dataset.images.codecs import (
    CHANNELS,
    ImageScratch,
    SamplingError,
    decode_picture,
    read_jpeg_size,
    signature,
)
from stoker.dataset.images.orientation import KEPT, find_orientation, upright_size
from stoker.dataset.images.png import (
    PngHeader,
    check_png_kind,
    check_rows,
    frames_of,
    has_transparency,
    read_png_header,
)
from stoker.dataset.images.transcode import is_deep_mask, transcode
from stoker.dataset.limits import MAX_FILE_BYTES, MAX_SCANS, CodecError


@dataclass(frozen=True)
class Picture:
    """An image or mask as it will be stored.

    Attributes:
        data: the bytes to store.
        encoding: "jpeg" or "png".
        height, width: in pixels, after orientation.
        orientation: EXIF orientation, 1..8; 1 if the orientation is kept.
        notes: remarks for its owner, for example that it was re-encoded.
        grid: the grid of a JPEG that was rewritten for crops, otherwise empty.
        came_bytes: for such a JPEG, the size of the original file.
    """

    data: bytes
    encoding: str
    height: int
    width: int
    orientation: int
    notes: tuple[str, ...] = ()
    grid: bytes = b""
    came_bytes: int = 0


def picture_size(data: bytes, keep: bool = False) -> tuple[int, int]:
    """Return (height, width) of an image file, without decoding it.

    Args:
        data: the file's bytes.
        keep: whether the size is that of the stored pixels; otherwise after orientation.

    Raises:
        CodecError: it is not an image in a known format, or is damaged.
    """
    encoding = signature(data)
    if encoding is None or _is_converted(data, encoding, "image"):
        data, _ = transcode(data, "image", keep)
        encoding = "png"
    return upright_size(*_stored_size(data, encoding), 1 if keep else find_orientation(data))


def inspect_picture(data: bytes, kind: str, scratch: "Scratches", keep: bool = False) -> Picture:
    """Inspect an image file and decode it once.

    Args:
        data: the file's bytes.
        kind: "image" or "mask".
        scratch: memory; `scratch.pixels` then holds the pixels.
        keep: use the pixels as stored; otherwise they are turned upright by EXIF.

    Raises:
        CodecError: it cannot be stored; the text says why.
    """
    if not data:
        raise CodecError("it is empty")
    if len(data) > MAX_FILE_BYTES:
        raise CodecError(f"it has {len(data)} bytes, more than the limit of {MAX_FILE_BYTES}")
    encoding = signature(data)
    notes: tuple[str, ...] = ()
    if encoding is None or _is_converted(data, encoding, kind):
        data, notes = transcode(data, kind, keep)
        encoding = "png"
    if encoding == "png":
        header = read_png_header(data)
        check_png_kind(header, kind)
        if (frames := frames_of(data)) > 1:
            raise CodecError(f"it is a PNG of {frames} frames; store the frame you want by itself")
        check_rows(data, header)
        notes += _png_notes(data, header, kind)
        stored = header.height, header.width
    else:
        stored = read_jpeg_size(data)
        if (scans := data.count(b"\xff\xda")) > MAX_SCANS:
            raise CodecError(f"it has {scans} scans, more than the limit of {MAX_SCANS}")
    orientation = find_orientation(data)
    if keep and orientation != 1:
        orientation, notes = 1, (*notes, KEPT)
    size = upright_size(*stored, orientation)
    out = scratch.pixels.take(size[0] * size[1] * CHANNELS[kind])
    decode_picture(data, kind, size, orientation, out, scratch.turned)
    return Picture(data, encoding, *size, orientation, notes)


def _is_converted(data: bytes, encoding: str, kind: str) -> bool:
    """Return whether a JPEG or PNG is outside of the decoder contract, and converted."""
    if encoding == "png" or kind == "mask":
        return is_deep_mask(data) and kind == "mask"
    try:
        read_jpeg_size(data)
    except SamplingError:
        return True
    except CodecError:
        return False  # decoding it says what is wrong
    return False


def _stored_size(data: bytes, encoding: str) -> tuple[int, int]:
    if encoding == "jpeg":
        return read_jpeg_size(data)
    header = read_png_header(data)
    return header.height, header.width


class Scratches:
    """The memories that inspection needs, reused from file to file.

    Attributes:
        pixels: the pixels of the last inspected image.
        turned: for images before they are turned.
        again: for a second decoding.
        boxes: of Stoker's own decoder.
    """

    def __init__(self) -> None:
        self.pixels = ImageScratch()
        self.turned = ImageScratch()
        self.again = ImageScratch()
        self.boxes = BoxScratch()


def _png_notes(data: bytes, header: PngHeader, kind: str) -> tuple[str, ...]:
    if kind == "image" and has_transparency(data, header):
        return ("transparency present: stored, but ignored when decoding",)
    return ()
