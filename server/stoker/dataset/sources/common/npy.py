"""The header of an .npy file, read without its data, and never with pickle.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3.
"""

import io
import math
from tokenize import TokenError
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.limits import CodecError

MAGIC = b"\x93NUMPY"
HEADER_BYTES = 4096
"""Maximum size of a header; a file with a longer one is rejected."""
_READERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
    (3, 0): npy_format.read_array_header_2_0,
}

_DAMAGED = (ValueError, KeyError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)
"""What NumPy raises on a damaged header: it parses a literal of Python, an old one by tokens."""


class NpyHeader(NamedTuple):
    """dtype, shape and order of an array, and the offset of its data."""

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the array's data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(data: bytes) -> NpyHeader:
    """Read the header at the start of a file.

    Raises:
        CodecError: it is not an .npy file, or a dataset cannot hold its dtype.
    """
    file = io.BytesIO(data[:HEADER_BYTES])
    try:
        version = npy_format.read_magic(file)
        shape, fortran_order, dtype = _READERS[version](file, max_header_size=HEADER_BYTES)
    except _DAMAGED as error:
        raise CodecError(f"expected a readable .npy file: {error}") from None
    if dtype.hasobject or dtype.name not in ITEM_BYTES:
        raise CodecError(f"expected an array of numbers, got one of {dtype}")
    return NpyHeader(dtype, shape, fortran_order and len(shape) > 1, file.tell())


def read_array(data: bytes) -> np.ndarray:
    """Read a whole file.

    Raises:
        CodecError: as in `read_header`, or the size of its data differs from its header.
    """
    header = read_header(data)
    if len(data) - header.offset != header.size_bytes:
        raise CodecError(
            f"expected {header.size_bytes} bytes of data, from its header, got "
            f"{len(data) - header.offset}"
        )
    flat = np.frombuffer(data, header.dtype, offset=header.offset)
    flat = flat.astype(header.dtype.newbyteorder("="), copy=False)
    if header.fortran_order:
        return flat.reshape(header.shape[::-1]).T
    return flat.reshape(header.shape)
