"""JPEGs of any sampling, made of flat blocks; Pillow and OpenCV write only the usual samplings."""

import struct
from collections.abc import Sequence

import numpy as np

DC_CODES = bytes([0, 0, 0, 12, *[0] * 12]) + bytes(range(12))
"""Twelve codes of four bits each, for differences of up to eleven bits."""
AC_CODES = bytes([1, *[0] * 15]) + b"\0"
"""One code of one bit: no further coefficients."""


def flat_jpeg(height: int, width: int, factors: Sequence[tuple[int, int]], seed: int = 0) -> bytes:
    """Return a baseline JPEG of random flat blocks.

    Args:
        height: in pixels.
        width: in pixels.
        factors: (horizontal, vertical) sampling of each component.
        seed: of the levels.
    """
    rng = np.random.default_rng(seed)
    across, down = (8 * max(each) for each in zip(*factors, strict=True))
    bits, before = "", [0] * len(factors)
    for _ in range(-(-height // down) * -(-width // across)):
        for number, (h, v) in enumerate(factors):
            for level in rng.integers(-40, 41, h * v).tolist():
                step, before[number] = level - before[number], level
                size = abs(step).bit_length()
                body = step if step > 0 else step + (1 << size) - 1
                bits += f"{size:04b}" + (f"{body:0{size}b}" if size else "") + "0"
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    parts = range(1, len(factors) + 1)
    frame = b"".join(bytes([n, h << 4 | v, 0]) for n, (h, v) in zip(parts, factors, strict=True))
    return b"".join(
        [
            b"\xff\xd8",
            _segment(0xDB, b"\0" + bytes([16] * 64)),
            _segment(0xC0, struct.pack(">BHHB", 8, height, width, len(factors)) + frame),
            _segment(0xC4, b"\0" + DC_CODES + b"\x10" + AC_CODES),
            _segment(0xDA, bytes([len(factors), *(b for n in parts for b in (n, 0)), 0, 63, 0])),
            scan,
            b"\xff\xd9",
        ]
    )


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
