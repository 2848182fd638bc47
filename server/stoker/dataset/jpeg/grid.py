"""The grid of a rewritten JPEG: where each restart interval lies, as a side column's bytes.

Little-endian: the fields of `_HEAD`, then one uint32 for each interval, and one for the end of the
file: offsets from its begin. The two bytes before each but the first are a marker. An interval is
`interval` MCUs of one MCU row; it divides the columns, so that all intervals are alike. Specified
with vectors in docs/contracts/jpeg-grid.md.
"""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from stoker.dataset.limits import CodecError

VERSION: Final = 1
_HEAD: Final = struct.Struct("<BBBBHHHHIII")


def intervals_of_a_row(data: bytes) -> int:
    """Return how many intervals an MCU row has, from a side column's bytes that were just made."""
    return int(_HEAD.unpack_from(data)[5])


@dataclass(frozen=True)
class Grid:
    """The grid of one file.

    Attributes:
        mcu_width: pixels of an MCU, 8 times the greatest horizontal sampling factor.
        mcu_height: the same down.
        interval: MCUs of an interval.
        columns: intervals of an MCU row.
        rows: MCU rows.
        jfif_end: the bytes 2 to here are the JFIF segment, if any.
        head: from here on stands what a decoder needs.
        frame: where the frame segment's height stands.
        offsets: (columns * rows + 1,) uint32: begin of each interval, then the end of the file.
    """

    mcu_width: int
    mcu_height: int
    interval: int
    columns: int
    rows: int
    jfif_end: int
    head: int
    frame: int
    offsets: np.ndarray

    def to_bytes(self) -> bytes:
        """Return the side column's bytes."""
        head = _HEAD.pack(
            VERSION, self.mcu_width, self.mcu_height, 0,
            self.interval, self.columns, self.rows, 0,
            self.jfif_end, self.head, self.frame,
        )  # fmt: skip
        return head + self.offsets.astype("<u4").tobytes()

    @staticmethod
    def from_bytes(data: bytes | memoryview, size_bytes: int) -> "Grid":
        """Read a side column's bytes.

        Args:
            data: the bytes.
            size_bytes: of the file that the grid is of: nothing may lie beyond its end.

        Raises:
            CodecError: they are no grid of such a file, or of another version.
        """
        if len(data) < _HEAD.size or data[0] != VERSION or len(data) % 4:
            raise CodecError("its grid is damaged or of another version")
        _, width, height, _, interval, columns, rows, _, jfif_end, head, frame = _HEAD.unpack_from(
            data
        )
        offsets = np.frombuffer(data, "<u4", offset=_HEAD.size)
        fits = width and height and interval and len(offsets) == columns * rows + 1 > 1
        if (
            not fits
            or not 2 <= jfif_end <= head < frame < frame + 4 <= offsets[0]
            or int(offsets[-1]) != size_bytes
            or not (offsets[1:] >= offsets[:-1] + np.uint32(2)).all()
            or int(offsets[0]) > size_bytes
        ):
            raise CodecError("its grid is damaged")
        return Grid(width, height, interval, columns, rows, jfif_end, head, frame, offsets)
