"""The frame of a JPEG: its size and its sampling factors, read from the header alone.

TurboJPEG names eight samplings, simplejpeg seven of them; the format allows many more. So the size
of such a file is read here, and an error names its sampling.
"""

import struct
from typing import NamedTuple

from stoker.dataset.limits import CodecError

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers without a segment."""


class Frame(NamedTuple):
    """The frame: sides in pixels, as stored, and (horizontal, vertical) factors by component."""

    height: int
    width: int
    sampling: tuple[tuple[int, int], ...]

    @property
    def is_fractional(self) -> bool:
        """True if a factor does not divide the greatest one; libjpeg decodes no such file."""
        most = [max(factors) for factors in zip(*self.sampling, strict=True)]
        return any(most[0] % h or most[1] % v for h, v in self.sampling)

    def __str__(self) -> str:
        return ", ".join(f"{h}x{v}" for h, v in self.sampling)


def read_frame(data: bytes | memoryview) -> Frame:
    """Read the frame.

    Raises:
        CodecError: no frame precedes the first scan, or it is damaged.
    """
    view, place = memoryview(data), 2
    try:
        while True:
            marker = view[place + 1]
            if view[place] != 0xFF or marker == 0xDA:
                raise CodecError("its header is damaged: there is no frame before the pixels")
            if marker == 0xFF:
                place += 1
            elif marker in _ALONE:
                place += 2
            elif marker in _FRAMES:
                return _frame(view[place + 4 :])
            else:
                place += 2 + max(2, int(struct.unpack_from(">H", view, place + 2)[0]))
    except (IndexError, struct.error):
        raise CodecError("its header is damaged: it ends early") from None


def _frame(body: memoryview) -> Frame:
    height, width, count = struct.unpack_from(">xHHB", body)
    factors = [body[7 + 3 * number] for number in range(count)]
    sampling = tuple((both >> 4, both & 15) for both in factors)
    if not sampling or not all(1 <= side <= 4 for pair in sampling for side in pair):
        raise CodecError("its header is damaged: its sampling factors are not 1 to 4")
    return Frame(height, width, sampling)
