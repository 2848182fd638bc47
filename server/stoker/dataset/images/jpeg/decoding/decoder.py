"""The decoder's memory, and its calls from Python; one for each thread.

Two kernels make a box: `prepare` reads the head and decides, `decode` makes pixels. At a fraction
`decode_reduced` makes them, and of bit planes `decode_planes`, which is not compiled in the
background with the others. The lookup tables of all shared sets of Huffman tables, and of one other
file, are half a MB; pages of it that are never filled take no memory. Other memory grows to the
largest window and never shrinks: about 45 bytes for each pixel of a band, so some hundred KB for
photographs of usual width, and never the whole image.
"""

import math
import operator
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.bands import decode, prepare
from stoker.dataset.images.jpeg.decoding.choice import EXACT, REDUCED
from stoker.dataset.images.jpeg.decoding.plane_bands import decode_planes
from stoker.dataset.images.jpeg.decoding.scaled_bands import decode_reduced
from stoker.dataset.images.jpeg.decoding.sizes import (
    ENTRIES,
    HUFFMAN_BYTES,
    LANES,
    MOST_BLOCKS,
    OTHER_FORM,
)
from stoker.dataset.images.jpeg.decoding.table_sets import PLACES, SHARED
from stoker.dataset.images.jpeg.decoding.tables import CODE, TABLES
from stoker.dataset.images.jpeg.decoding.window import (
    DIVISOR,
    FOLLOWING,
    IS_PLANES,
    JOBS,
    NUMBERS,
    PART_NUMBERS,
)
from stoker.dataset.images.jpeg.planes.plane_form import new_parameters
from stoker.dataset.images.jpeg.splice import raise_status
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, direct
from stoker.jit.compiling import is_missing
from stoker.jit.diskcache import load_stored

_FORMS: Final = 4
"""More compiled forms than a kernel of the decoder has."""
_KERNELS: Final = {EXACT: (prepare, decode), REDUCED: (prepare, decode, decode_reduced)}
"""The kernels of each form of the decoder."""
_NOTHING: Final = np.frombuffer(bytes(8), np.uint8)
_ASKED: Final = struct.Struct("@9q")
"""The first numbers of a window: `window.TOP` to `window.LINE`."""
_ALIGNMENTS: Final = (1, 1, 1, 1 << 18, 1, 1)
"""Bytes to which each part of the memory is aligned: coefficients to the largest slot."""


class BoxDecoder:
    """Decodes boxes of gridded files."""

    def __init__(self) -> None:
        """Start with the memory that every file needs."""
        self._numbers = np.zeros(NUMBERS, np.int64)
        self._words = self._numbers.data
        self._prepare: Any = None
        self._make: dict[Callable[..., Any], Any] = {}
        self._parts = np.zeros((3, PART_NUMBERS), np.int64)
        self._file = (
            np.zeros((MOST_BLOCKS, 3), np.int64),
            np.zeros((3, 64 * LANES), np.int16),
            np.zeros((PLACES, TABLES * ENTRIES), np.int64),
            np.zeros((PLACES, 4 * CODE), np.int32),
            new_parameters(),
        )
        self._work = (
            np.zeros(2 * ENTRIES, np.uint32),
            np.zeros(HUFFMAN_BYTES, np.uint8),
            np.zeros(PLACES, np.uint8),
            SHARED,
        )
        self._memory: tuple[np.ndarray, ...] = (
            np.empty(0, np.int64),
            np.empty(0, np.uint8),
            np.empty((3, 0), np.int64),
            np.empty(0, np.int16),
            np.empty(0, np.uint8),
            np.empty(0, np.int64),
        )
        self._room = [0] * len(self._memory)

    def decode(
        self,
        data: memoryview,
        grid: memoryview,
        size: tuple[int, int],
        box: tuple[int, int, int, int],
        most: int,
        target: tuple[np.ndarray, int, int],
        divisor: int = 1,
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
            divisor: 1, 2, 4 or 8: decode the pixels of the reduced image that the box touches.

        Raises:
            CodecError: the grid or an interval is damaged, or the grid belongs to another file.
        """
        flat, grids = _bytes_of(data), _bytes_of(grid)
        _ASKED.pack_into(self._words, 0, *box, *size, most, *target[1:])
        self._words[DIVISOR] = divisor
        status = self.prepare(flat, grids)
        if status == OTHER_FORM or (status != 0 and most == 0):
            return False
        raise_status(status, size)
        self._grow()
        if not self.make_pixels(flat, grids, target[0]):
            raise CodecError("it is damaged: the data of an interval does not fit its place")
        return True

    def prepare(self, data: np.ndarray, grid: np.ndarray) -> Any:
        """Call `bands.prepare` for the box in `_numbers`; return its status."""
        given = data, grid, self._numbers, self._parts, self._file, self._work
        if self._prepare is None:
            self._prepare = direct(prepare, *given)
        return self._prepare(*given)

    def make_pixels(self, data: np.ndarray, grid: np.ndarray, out: np.ndarray) -> Any:
        """Decode the box that was prepared by the file's kernel; return whether it is intact."""
        kernel = decode_reduced if self._words[DIVISOR] > 1 else decode
        if self._words[IS_PLANES]:
            kernel = decode_planes
        given = data, grid, self._numbers, self._parts, self._file, self._memory, out
        made = self._make.get(kernel)
        if made is None:
            made = self._make[kernel] = direct(kernel, *given)
        return made(*given)

    def make_no_pixels(self, planes: bool = False, divisor: int = 1) -> None:
        """Call `make_pixels` without rows, on a new decoder; its kernel gets compiled."""
        self._numbers[IS_PLANES], self._numbers[DIVISOR] = planes, divisor
        self.make_pixels(_NOTHING, _NOTHING, np.zeros(1, np.uint8))

    def _grow(self) -> None:
        """Replace the parts of the memory that are too small for the window."""
        needed = self._words[FOLLOWING : JOBS + 1]
        if any(map(operator.lt, self._room, needed)):
            self._memory = tuple(map(_grown, self._memory, needed, _ALIGNMENTS))
            self._room = [part.shape[-1] for part in self._memory]


def compile_prepare() -> None:
    """Compile the half of the decoder that reads heads, by a call with an invalid grid."""
    BoxDecoder().prepare(_NOTHING, _NOTHING)


def compile_decode() -> None:
    """Compile the half of the decoder that makes pixels, by a call without rows."""
    BoxDecoder().make_no_pixels()


def compile_decode_planes() -> None:
    """Compile the kernel of bit planes, by a call without rows."""
    BoxDecoder().make_no_pixels(planes=True)


def compile_decode_reduced() -> None:
    """Compile the kernel of fractions, by a call without rows."""
    BoxDecoder().make_no_pixels(divisor=2)


def compile_decoder(form: int) -> None:
    """Compile a form of the decoder (`choice`)."""
    compile_prepare()
    compile_decode()
    if form == REDUCED:
        compile_decode_reduced()


def is_decoder_missing(form: int) -> bool:
    """Return whether the cache on disk lacks a kernel of a form, and can keep it.

    The kernel of bit planes belongs to no form.
    """
    return any(is_missing(fn) for fn in _KERNELS[form])


def load_decoder(form: int) -> bool:
    """Load a form's code if the cache on disk has it; return whether it is loaded."""
    found = [compiled(fn) for fn in _KERNELS[form]]
    for fast in found:
        load_stored(fast, _FORMS)
    return all(fast.overloads for fast in found)


def _bytes_of(data: memoryview) -> np.ndarray:
    """Return bytes as an array that is always read-only, so that its type is always the same."""
    return np.frombuffer(data.toreadonly(), np.uint8)


def _grown(part: np.ndarray, size: int, alignment: int) -> np.ndarray:
    """Return a part of the memory of at least that many elements, or columns."""
    if part.shape[-1] >= size:
        return part
    shape = (*part.shape[:-1], size * 5 // 4)
    size_bytes = math.prod(shape) * part.itemsize
    memory = np.zeros(size_bytes + alignment, np.uint8)
    begin = -memory.ctypes.data % alignment
    return memory[begin : begin + size_bytes].view(part.dtype).reshape(shape)
