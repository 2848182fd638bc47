"""The EXIF parser against Pillow's, and against headers made to confuse it."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from stoker.dataset.images.orientation import find_orientation, oriented, upright_size

METHODS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_views_are_as_pillows_transpose(orientation):
    pixels = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)
    picture = Image.fromarray(pixels)
    if orientation > 1:
        picture = picture.transpose(METHODS[orientation])
    turned = oriented(pixels, orientation)
    assert np.array_equal(turned, np.asarray(picture))
    assert np.shares_memory(turned, pixels)
    assert upright_size(7, 5, orientation) == turned.shape[:2]
    assert upright_size(*turned.shape[:2], orientation) == (7, 5)


def tiff(order: str, value: int, kind: int = 3, tag: int = 0x0112, count: int = 1) -> bytes:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entries = [(0x010F, 2, 4, b"abc\0")]
    shown = struct.pack(order + ("H2x" if kind == 3 else "I"), value)
    entries.append((tag, kind, count, shown))
    body = b"".join(struct.pack(order + "HHI4s", *entry) for entry in entries)
    return mark + struct.pack(order + "IH", 8, len(entries)) + body + bytes(4)


def jpeg_with(*segments: tuple[int, bytes]) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, "JPEG")
    head = b"".join(
        struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body for marker, body in segments
    )
    return out.getvalue()[:2] + head + out.getvalue()[2:]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [3, 4])
def test_both_byte_orders_and_number_types(order, kind):
    data = jpeg_with((0xE1, b"Exif\0\0" + tiff(order, 6, kind)))
    assert find_orientation(data) == 6
    assert Image.open(io.BytesIO(data)).getexif()[0x0112] == 6


def test_the_first_exif_segment_counts_and_others_are_passed_over():
    first, second = (b"Exif\0\0" + tiff("<", value) for value in (3, 8))
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x/>"
    data = jpeg_with((0xE0, b"JFIF\0"), (0xE1, xmp), (0xE1, first), (0xE1, second))
    assert find_orientation(data) == 3


@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"II*\0",
        b"II*\0" + struct.pack("<I", 2**32 - 1),
        b"II*\0" + struct.pack("<IH", 8, 65535),
        b"XX*\0" + bytes(20),
        tiff("<", 0),
        tiff("<", 9),
        tiff("<", 6, kind=2),
        tiff("<", 6, count=2),
        tiff("<", 6, tag=0x0113),
        tiff("<", 6)[:-14],
    ],
)
def test_damaged_or_absent_orientation_counts_as_one(exif):
    assert find_orientation(jpeg_with((0xE1, b"Exif\0\0" + exif))) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\xff\xd8",
        b"\xff\xd8\xff\xe1",
        b"\xff\xd8\xff\xe1\0\0",
        b"\xff\xd8" + b"\xff" * 50,
        b"\xff\xd8\0\0\0\0",
        b"\xff\xd8\xff\xd0\xff\x01\xff\xda\0\x04\0\0",
    ],
)
def test_headers_that_lead_nowhere(data):
    assert find_orientation(data) == 1


def test_a_truncated_png_has_orientation_one():
    assert find_orientation(b"\x89PNG\r\n\x1a\n" + bytes(5)) == 1
