"""Images in bands of rows, each compressed by LZ4: a crop decodes only the bands it touches.

Lossless, and much cheaper to decode than PNG: made for masks, whose rows are long runs. The bytes:
"band", the rows of a band and the number of bands; for each band the end of its bytes, counted
from the end of this table, and their CRC-32 (all unsigned 32-bit, little-endian); then the bands:
LZ4 blocks, or plain pixels if LZ4 does not make them smaller. The last band may have fewer rows.
Specified in docs/contracts/dataset.md. Sizes come from side columns; bytes that disagree with them
are damaged. Other versions of LZ4 may write other bytes, so digests of a dataset cover the pixels.
Runs in workers and when packing; keeps no state.
"""

import struct
import zlib
from itertools import pairwise

import lz4.block
import numpy as np

from stoker.dataset.limits import CodecError

SIGNATURE = b"band"
BAND_BYTES = 2**16
"""Bytes of pixels in a band, at least a row: small enough that a crop decodes few extra rows at its
ends, large enough that a call of the codec costs less than its work."""
_HEAD = struct.Struct("<4sII")
_LEVEL = 9


def encode_bands(pixels: np.ndarray) -> bytes:
    """Encode `(H, W)` or `(H, W, C)` pixels of any dtype, stored little-endian."""
    pixels = _bytes_of(np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<")))
    line = pixels.shape[1]
    rows = min(max(BAND_BYTES // line, 1), pixels.shape[0])
    bands = [_compressed(pixels[top : top + rows]) for top in range(0, pixels.shape[0], rows)]
    ends = np.cumsum([len(band) for band in bands])
    table = np.stack([ends, [zlib.crc32(band) for band in bands]], 1).astype("<u4")
    return b"".join([_HEAD.pack(SIGNATURE, rows, len(bands)), table.tobytes(), *bands])


def decode_bands(
    data: bytes | memoryview,
    out: np.ndarray,
    box: tuple[int, int, int, int] | None = None,
) -> None:
    """Decode an image, or a box of it, into `out`.

    Args:
        data: the bytes from `encode_bands`; only the bands that the box touches are read.
        out: `(H, W)` or `(H, W, C)` of the encoded dtype, contiguous.
        box: (top, left, height, width) inside the image; None for all of it. Only the box is
            written.

    Raises:
        CodecError: the bytes are damaged, or the image has another size.
    """
    view = memoryview(data)
    rows, ends, checksums, bands = _parts(view, out.shape[0])
    top, left, height, width = box or (0, 0, *out.shape[:2])
    lines = _bytes_of(out)
    line = lines.shape[1]
    pixel = line // out.shape[1]
    for band in range(top // rows, (top + height - 1) // rows + 1):
        first = band * rows
        stop = min(first + rows, out.shape[0])
        packed = bands[ends[band - 1] if band else 0 : ends[band]]
        pixels = _pixels(packed, checksums[band], (stop - first) * line)
        part = pixels.reshape(stop - first, line)
        y0, y1 = max(first, top), min(stop, top + height)
        x0, x1 = left * pixel, (left + width) * pixel
        lines[y0:y1, x0:x1] = part[y0 - first : y1 - first, x0:x1]


def _bytes_of(pixels: np.ndarray) -> np.ndarray:
    """Return a view of the bytes of pixels, `(H, bytes of a row)`."""
    return pixels.reshape(-1).view(np.uint8).reshape(pixels.shape[0], -1)


def _compressed(pixels: np.ndarray) -> bytes:
    plain = pixels.tobytes()
    packed = lz4.block.compress(
        plain, mode="high_compression", compression=_LEVEL, store_size=False
    )
    return bytes(packed) if len(packed) < len(plain) else plain


def _parts(
    view: memoryview, height: int
) -> tuple[int, tuple[int, ...], tuple[int, ...], memoryview]:
    """Return the rows per band, ends, checksums and bytes of the bands, after checks."""
    if len(view) < _HEAD.size:
        raise CodecError("it is truncated")
    found, rows, count = _HEAD.unpack_from(view)
    if found != SIGNATURE or rows < 1 or count != -(-height // rows):
        raise CodecError(f"expected the head of an image of {height} rows in bands, got another")
    start = _HEAD.size + 8 * count
    if len(view) < start:
        raise CodecError("its table of bands is truncated")
    table = struct.unpack_from(f"<{2 * count}I", view, _HEAD.size)
    ends = table[::2]
    if ends[-1] != len(view) - start or any(one >= two for one, two in pairwise((0, *ends))):
        raise CodecError("its table of bands does not fit its length")
    return rows, ends, table[1::2], view[start:]


def _pixels(data: memoryview, checksum: int, size_bytes: int) -> np.ndarray:
    if zlib.crc32(data) != checksum:
        raise CodecError("the checksum of a band differs: it is damaged")
    if len(data) == size_bytes:
        return np.frombuffer(data, np.uint8)
    try:
        plain = lz4.block.decompress(data, uncompressed_size=size_bytes)
    except lz4.block.LZ4BlockError as error:
        raise CodecError(f"a band is damaged: {error}") from None
    if len(plain) != size_bytes:
        raise CodecError(f"expected {size_bytes} bytes of pixels in a band, got {len(plain)}")
    return np.frombuffer(plain, np.uint8)
