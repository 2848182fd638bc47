"""The decoder's memory, and its calls from Python; one for each thread.

Two kernels make a box: `prepare` reads the head and decides, `decode` makes pixels. Memory grows to
the largest window and never shrinks: about 45 bytes for each pixel of a band, so some hundred KB
for photographs of usual width, and never the whole image.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.bands import decode, prepare
from stoker.dataset.images.jpeg.decoding.sizes import (
    ENTRIES,
    HUFFMAN_BYTES,
    LANES,
    MOST_BLOCKS,
    OTHER_FORM,
)
from stoker.dataset.images.jpeg.decoding.tables import CODE, TABLES
from stoker.dataset.images.jpeg.decoding.window import (
    CELLS,
    COEFFICIENTS,
    FOLLOWING,
    JOBS,
    NUMBERS,
    PART_NUMBERS,
    PLAIN,
    PLANES,
)
from stoker.dataset.images.jpeg.splice import raise_status
from stoker.dataset.limits import CodecError
from stoker.jit import compiled
from stoker.jit.diskcache import load_stored

_PIXEL: Final = (
    "ffd8ffe000104a46494600010100000100010000ffdb004300100b0c0e0c0a100e0d0e1211101318281a1816161831"
    "23251d283a333d3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c656763ffc0000b08"
    "0001000101011100ffc40026000100000000000000000000000000000007100100000000000000000000000000000"
    "000ffdd00040001ffda0008010100003f003f7fffd9",
    "01080800010001000100000014000000140000005e0000009e000000a2000000",
)
"""A gray pixel on a grid, and its grid."""
_FORMS: Final = 4
"""More compiled forms than a kernel of the decoder has."""
_ALIGNMENT: Final = 1 << 18
"""The largest slot, in bytes."""


class BoxDecoder:
    """Decodes boxes of gridded files."""

    def __init__(self) -> None:
        """Start with the memory that every file needs."""
        self._numbers = np.zeros(NUMBERS, np.int64)
        self._parts = np.zeros((3, PART_NUMBERS), np.int64)
        self._file = (
            np.zeros((MOST_BLOCKS, 3), np.int64),
            np.zeros((3, 64 * LANES), np.int16),
            np.zeros(TABLES * ENTRIES, np.int64),
            np.zeros(4 * CODE, np.int32),
        )
        self._work = np.zeros(2 * ENTRIES, np.uint32), np.zeros(HUFFMAN_BYTES, np.uint8)
        self._memory = (
            np.empty(0, np.int64),
            np.empty(0, np.uint8),
            np.empty((3, 0), np.int64),
            np.empty(0, np.int16),
            np.empty(0, np.uint8),
            np.empty(0, np.int64),
        )

    def decode(
        self,
        data: memoryview,
        grid: memoryview,
        size: tuple[int, int],
        box: tuple[int, int, int, int],
        most: int,
        target: tuple[np.ndarray, int, int],
    ) -> bool:
        """Decode a box, or return False, without a change of `target`, for files of other forms.

        Args:
            data: the gridded file.
            grid: its grid, the side column's bytes.
            size: (height, width) of the image as stored.
            box: (top, left, height, width) as stored, inside the image.
            most: if the window of whole intervals has more pixels, all intervals are read; 0: they
                always are, and a damaged grid is not an error but a file of another form.
            target: flat uint8 memory, the place of the box's first byte in it, and bytes from row
                to row.

        Raises:
            CodecError: the grid or an interval is damaged, or the grid belongs to another file.
        """
        flat, grids, numbers = (
            np.frombuffer(data, np.uint8),
            np.frombuffer(grid, np.uint8),
            self._numbers,
        )
        numbers[:9] = (*box, *size, most, *target[1:])
        status = compiled(prepare)(flat, grids, numbers, self._parts, self._file, self._work)
        if status == OTHER_FORM or (status != 0 and most == 0):
            return False
        raise_status(status, size)
        self._grow()
        if not compiled(decode)(
            flat, grids, numbers, self._parts, self._file, self._memory, target[0]
        ):
            raise CodecError("it is damaged: the data of an interval does not fit its place")
        return True

    def _grow(self) -> None:
        following, plain, places, coefficients, planes, jobs = self._memory
        needed = self._numbers
        if places.shape[1] < needed[CELLS]:
            places = np.zeros((3, needed[CELLS]), np.int64)
        if coefficients.size < needed[COEFFICIENTS]:
            coefficients = _aligned(2 * int(needed[COEFFICIENTS])).view(np.int16)
        self._memory = (
            _grown(following, needed[FOLLOWING]),
            _grown(plain, needed[PLAIN]),
            places,
            coefficients,
            _grown(planes, needed[PLANES]),
            _grown(jobs, needed[JOBS]),
        )


def compile_decoder() -> None:
    """Compile the decoder's code into the cache on disk, by decoding one gray pixel."""
    out = np.zeros(3, np.uint8)
    data, grid = (memoryview(bytes.fromhex(text)) for text in _PIXEL)
    BoxDecoder().decode(data, grid, (1, 1), (0, 0, 1, 1), 1, (out, 0, 3))


def load_decoder() -> bool:
    """Load the decoder's code if the cache on disk has it; return whether it is loaded."""
    found = [compiled(fn) for fn in (prepare, decode)]
    for fast in found:
        load_stored(fast, _FORMS)
    return all(fast.overloads for fast in found)


def _grown(memory: np.ndarray, size: Any) -> np.ndarray:
    return memory if memory.size >= size else np.zeros(int(size) * 5 // 4, memory.dtype)


def _aligned(size_bytes: int) -> np.ndarray:
    memory = np.zeros(size_bytes + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size_bytes]
