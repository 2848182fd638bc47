"""Convert image files that the decoder contract leaves out to PNG, without loss, when packing.

Pillow's plugin for the format is chosen by the file's signature and used directly; Stoker's pixel
limit replaces Pillow's and is checked on the header before a pixel is decoded. Several frames, more
than 8 bits per channel and floats are rejected, because they do not give one obvious 8-bit image.
Pillow itself would drop the lower bits of a TIFF or PNM of 16-bit colors. It scales PNMs to 255 or
65535; the class numbers of a mask are scaled back.
"""

import io
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from PIL import (
    BmpImagePlugin,
    ExifTags,
    GifImagePlugin,
    Image,
    ImageFile,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from stoker.dataset.images.jpeg import UnindexableError, rewrite
from stoker.dataset.images.jpeg.frame import read_frame
from stoker.dataset.images.jpeg.segments import SOI
from stoker.dataset.images.orientation import KEPT, laid_back
from stoker.dataset.images.png import SIGNATURE, mask_values, read_png_header
from stoker.dataset.limits import CodecError, check_pixels

_FORMATS: tuple[tuple[bytes, str, Callable[[io.BytesIO], ImageFile.ImageFile]], ...] = (
    (b"BM", "BMP", BmpImagePlugin.BmpImageFile),
    (b"GIF8", "GIF", GifImagePlugin.GifImageFile),
    (b"II*\0", "TIFF", TiffImagePlugin.TiffImageFile),
    (b"MM\0*", "TIFF", TiffImagePlugin.TiffImageFile),
    (b"RIFF", "WebP", WebPImagePlugin.WebPImageFile),
    *((b"P%d" % digit, "PNM", PpmImagePlugin.PpmImageFile) for digit in range(1, 7)),
)
FORMATS = tuple(start for start, *_ in _FORMATS)
"""First bytes of the formats that are converted."""
_REJECTED = (
    (b"ftypavif", "AVIF"),
    (b"ftypavis", "AVIF"),
    (b"ftyphei", "HEIF"),
    (b"ftypmif1", "HEIF"),
    (b"jP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"JXL ", "JPEG XL"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\x76\x2f\x31\x01", "OpenEXR"),
)
"""Signatures, at the start or at byte 4, of formats that are rejected by name."""
_IMAGE_MODES = ("1", "L", "P", "RGB", "RGBA", "RGBX", "LA", "PA", "CMYK", "YCbCr")
_MASK_MODES = ("1", "L", "P")
_DEEP = "image[uint16] (image[int16] for CT, image[float32] for depth)"


def is_deep_mask(data: bytes) -> bool:
    """Return whether this is a gray PNG of 16 bits; as a mask it may still hold small values."""
    if data[:8] != SIGNATURE:
        return False
    header = read_png_header(data)
    return header.depth == 16 and header.color == 0


def transcode(data: bytes, kind: str, keep: bool = False) -> tuple[bytes, tuple[str, ...]]:
    """Convert a file to a PNG of 8 bits with the same pixels.

    Args:
        data: the file's bytes.
        kind: "image" or "mask".
        keep: leave the pixels as stored; otherwise they are turned upright by EXIF.

    Returns:
        The PNG, and notes about the conversion.

    Raises:
        CodecError: it is not an image in a known format, is damaged, or would lose information.
    """
    name, opener = _format(data)
    try:
        picture = opener(io.BytesIO(data))
        check_pixels(picture.height, picture.width)
        frames = int(getattr(picture, "n_frames", 1))
        if frames > 1:
            raise CodecError(
                f"it is a {name} of {frames} frames; store the frame you want by itself"
            )
        most = _require_short(picture, name)
        turn = _orientation(picture)
        clear = kind == "image" and picture.has_transparency_data
        upright = ImageOps.exif_transpose(picture)
        if kind == "mask":
            pixels = _mask_pixels(upright, name, most)
        else:
            pixels = _image_pixels(upright, name)
    except CodecError:
        raise
    except Exception as error:  # Pillow raises a dozen types on damaged files
        raise CodecError(f"it is damaged: {name}: {error}") from None
    out = io.BytesIO()
    stored = np.ascontiguousarray(laid_back(pixels, turn)) if keep else pixels
    Image.fromarray(stored).save(out, "PNG", compress_level=6)
    what = {"PNG": "16-bit PNG", "JPEG": "JPEG of unusual sampling"}.get(name, name)
    less = "its transparency" if clear else "loss"
    note = f"{what} re-encoded as PNG without {less}"
    return out.getvalue(), (note, KEPT) if keep and turn != 1 else (note,)


def _orientation(picture: ImageFile.ImageFile) -> int:
    """Return the EXIF orientation of an image before loading, because loading turns a TIFF."""
    value = picture.getexif().get(ExifTags.Base.Orientation, 1)
    return value if value in range(1, 9) else 1


def _format(data: bytes) -> tuple[str, Callable[[io.BytesIO], ImageFile.ImageFile]]:
    if data[:8] == SIGNATURE:
        return "PNG", PngImagePlugin.PngImageFile
    if data[:2] == SOI:
        _check_jpeg(data)
        return "JPEG", JpegImagePlugin.JpegImageFile
    for start, name, opener in _FORMATS:
        if data.startswith(start) and (name != "WebP" or data[8:12] == b"WEBP"):
            return name, opener
    expected = "expected a JPEG, PNG, BMP, GIF, TIFF, WebP or PNM, but it"
    for start, name in _REJECTED:
        if data[: len(start)] == start or data[4 : 4 + len(start)] == start:
            raise CodecError(f"{expected} is {name}; convert it to PNG, which loses nothing")
    raise CodecError(f"{expected} begins with {data[:8].hex(' ')}")


def _check_jpeg(data: bytes) -> None:
    """Refuse what libjpeg does not decode, and damage, which Pillow would repair."""
    frame = read_frame(data)
    if frame.is_fractional:
        raise CodecError(
            f"the sampling factors of its components are {frame}, of which one does not divide "
            "the greatest, and libjpeg decodes no such file; convert it to PNG with the program "
            "that made it"
        )
    with suppress(UnindexableError):  # intact, as far as it was read
        rewrite(data)


def _require_short(picture: ImageFile.ImageFile, name: str) -> int:
    """Return the greatest level of a PNM's header, or 0; refuse colors of more than 8 bits.

    Must be called before loading, which forgets the header.
    """
    most = bits = 0
    if isinstance(picture, PpmImagePlugin.PpmImageFile) and picture.mode in ("L", "I", "RGB"):
        args = picture.tile[0].args
        most = int(args[1]) if isinstance(args, tuple) else 0
        bits = most.bit_length()
    elif isinstance(picture, TiffImagePlugin.TiffImageFile):
        bits = max(picture.tag_v2.get(ExifTags.Base.BitsPerSample, (1,)))
    if bits > 8 and picture.mode in _IMAGE_MODES:
        raise CodecError(
            f"it is a {name} of {bits} bits per channel and several channels, of which Stoker's "
            "files hold 8 bits; convert it to 8 bits, or pack its pixels as arrays of uint16"
        )
    return most


def _image_pixels(picture: Image.Image, name: str) -> np.ndarray:
    if picture.mode not in _IMAGE_MODES:
        kind = "image[float32]" if picture.mode == "F" else _DEEP
        raise CodecError(
            f"it is a {name} of mode {picture.mode}, which does not fit 8 bits per channel; pack "
            f"it with --field NAME={kind}, or convert it first"
        )
    picture.info.pop("transparency", None)
    return np.asarray(picture.convert("RGB"))


def _mask_pixels(picture: Image.Image, name: str, most: int) -> np.ndarray:
    if picture.mode in _MASK_MODES:
        return _unscaled(mask_values(picture), most, 255)
    if picture.mode not in ("I;16", "I;16B", "I"):
        raise CodecError(
            f"it is a {name} of mode {picture.mode}, but a mask has one channel of class indices "
            "(gray or palette); map its colors to indices first"
        )
    values = _unscaled(np.asarray(picture), most, 65535)
    if values.min() < 0 or values.max() > 255:
        raise CodecError(
            f"its values reach from {values.min()} to {values.max()}, but a mask's values must be "
            "0 to 255; pack larger ones with --field NAME=mask[uint16] or mask[int32]"
        )
    return values.astype(np.uint8)


def _unscaled(values: np.ndarray, most: int, white: int) -> np.ndarray:
    """Return the numbers of a PNM, whose greatest is `most`, which Pillow scaled to `white`."""
    if most in (0, white):
        return values
    return ((values.astype(np.int64) * most + white // 2) // white).astype(values.dtype)
