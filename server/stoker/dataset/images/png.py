"""PNG, read strictly: Stoker walks the chunks and compares checksums, Pillow inflates.

Pillow tolerates some damage and applies limits that are global to the process. So before Pillow
gets a file, the chunks are walked, the checksum of each critical one is compared, and the pixel
limit is applied to the header. Pillow's plugin is then used directly, which touches no Pillow
globals.

The pixels (decoder contract v1): an image is the result of `convert("RGB")` after transparency is
dropped: palettes applied, gray copied to three channels, alpha left out. A mask is the result of
`numpy.asarray`: palette indices, gray levels, 0 and 1 for one bit. 16 bits per channel are
rejected, and so are masks of more than one channel.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image, PngImagePlugin

from stoker.dataset.limits import CodecError, check_pixels

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLORS = {0: "gray", 2: "RGB", 3: "palette", 4: "gray with alpha", 6: "RGB with alpha"}
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_CRITICAL = 0x20
_INFLATED = 2**20
_ADAM7 = (
    (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)
)  # fmt: skip
"""For each pass: first column, first row, and the steps between columns and between rows."""


class DamagedPngError(CodecError):
    """The file breaks the PNG format."""


@dataclass(frozen=True)
class PngHeader:
    """The header chunk: sides in pixels, bits per channel, the format's color type.

    `interlaced` says whether the rows are in the seven passes of Adam7.
    """

    height: int
    width: int
    depth: int
    color: int
    interlaced: bool = False

    @property
    def has_alpha(self) -> bool:
        """True if the pixels have an alpha channel."""
        return self.color in (4, 6)


def chunks(view: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield all chunks as (name, body); check that each is complete, and critical checksums.

    Raises:
        DamagedPngError: the file ends early, or a checksum differs.
    """
    place = len(SIGNATURE)
    while True:
        if place + 12 > len(view):
            raise DamagedPngError("the file ends early: it is truncated")
        length, name = struct.unpack_from(">I4s", view, place)
        if place + 12 + length > len(view):
            raise DamagedPngError(f"the file ends inside chunk {name!r}: it is truncated")
        body = view[place + 8 : place + 8 + length]
        if not name[0] & _CRITICAL:
            (expected,) = struct.unpack_from(">I", view, place + 8 + length)
            if zlib.crc32(view[place + 4 : place + 8 + length]) != expected:
                raise DamagedPngError(f"the checksum of chunk {name!r} differs: it is damaged")
        yield name, body
        if name == b"IEND":
            return
        place += 12 + length


def read_png_header(data: bytes | memoryview) -> PngHeader:
    """Read the header; check the structure of the whole file and the pixel limit.

    Raises:
        CodecError: the file is damaged or too large.
    """
    view = memoryview(data)
    if view[:8] != SIGNATURE:
        raise DamagedPngError("expected the signature of a PNG")
    header = None
    for index, (name, body) in enumerate(chunks(view)):
        if index == 0:
            header = _header(name, body)
    assert header is not None
    return header


def frames_of(data: bytes | memoryview) -> int:
    """Return the number of frames of a PNG; several if it is animated (APNG's chunk acTL)."""
    for name, body in chunks(memoryview(data)):
        if name == b"acTL" and len(body) == 8:
            return max(int.from_bytes(body[:4], "big"), 1)
    return 1


def has_transparency(data: bytes | memoryview, header: PngHeader) -> bool:
    """Return whether pixels may be transparent: by alpha, a palette or a color (chunk tRNS)."""
    if header.has_alpha:
        return True
    for name, _ in chunks(memoryview(data)):
        if name in (b"tRNS", b"IDAT"):  # in this order
            return name == b"tRNS"
    return False


def _header(name: bytes, body: memoryview) -> PngHeader:
    if name != b"IHDR" or len(body) != 13:
        raise DamagedPngError("expected a header as its first chunk")
    width, height, depth, color, interlace = struct.unpack_from(">IIBBxxB", body)
    if color not in _COLORS or depth not in (1, 2, 4, 8, 16):
        raise DamagedPngError(f"its header has an invalid color type {color} with {depth} bits")
    check_pixels(height, width)
    return PngHeader(height, width, depth, color, interlace == 1)


def check_png_kind(header: PngHeader, kind: str) -> None:
    """Check that a PNG can be used for that kind.

    Raises:
        CodecError: it has 16 bits per channel, or is a mask of several channels.
    """
    if header.depth == 16:
        raise CodecError(
            "it has 16 bits per channel, but the field has 8: pack one channel with --field "
            "NAME=image[uint16] (or image[float32] for depth), or convert it to 8 bits"
        )
    if kind == "mask" and header.color not in (0, 3):
        raise CodecError(
            f"it is {_COLORS[header.color]}, but a mask has one channel of class indices (gray "
            "or palette); map its colors to indices first"
        )


def check_rows(data: bytes | memoryview, header: PngHeader) -> None:
    """Check that the pixel data are those of all rows; Pillow leaves missing rows black.

    Raises:
        DamagedPngError: they end early, or cannot be inflated.
    """
    expected = _row_bytes(header)
    inflate, found = zlib.decompressobj(), 0
    try:
        for name, body in chunks(memoryview(data)):
            rest: bytes | memoryview = body if name == b"IDAT" else b""
            while rest and found < expected:
                found += len(inflate.decompress(rest, _INFLATED))
                rest = inflate.unconsumed_tail
    except zlib.error as error:
        raise DamagedPngError(f"its pixel data are damaged: {error}") from None
    if found < expected:
        raise DamagedPngError(
            f"its pixel data end after {found} of {expected} bytes, so rows are missing: it is "
            "truncated"
        )


def _row_bytes(header: PngHeader) -> int:
    """Return the bytes of all rows, each with the number of its filter."""
    passes = _ADAM7 if header.interlaced else ((0, 0, 1, 1),)
    bits, total = header.depth * _CHANNELS[header.color], 0
    for left, top, across, down in passes:
        columns = -(-(header.width - left) // across)
        rows = -(-(header.height - top) // down)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total


def decode_png(data: bytes | memoryview, kind: str, expected: tuple[int, int]) -> np.ndarray:
    """Decode a PNG as stored: (H, W, 3) for an image, (H, W) for a mask, uint8.

    Raises:
        CodecError: the file is damaged, cannot be used for that kind, or has another size.
    """
    header = read_png_header(data)
    check_png_kind(header, kind)
    if (header.height, header.width) != expected:
        raise CodecError(
            f"expected {expected[0]}x{expected[1]} pixels, got {header.height}x{header.width}"
        )
    try:
        picture = PngImagePlugin.PngImageFile(io.BytesIO(data))
        picture.info.pop("transparency", None)
        pixels = mask_values(picture) if kind == "mask" else np.asarray(picture.convert("RGB"))
    except Exception as error:  # Pillow raises a dozen types on damaged files, even TypeError
        raise DamagedPngError(f"it is damaged: {error}") from None
    return pixels


def mask_values(picture: Image.Image) -> np.ndarray:
    """Return the unchanged values of a decoded file; one bit gives 0 and 1."""
    values: np.ndarray = np.asarray(picture)
    if values.dtype != np.bool_:
        return values
    bits: np.ndarray = values.view(np.uint8) != 0  # Pillow's True is the byte 255
    return bits.view(np.uint8)
