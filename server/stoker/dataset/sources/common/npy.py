"""The header of an .npy file, read without its data; no pickle, ever.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3.
"""

import io
import math
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.limits import CodecError

MAGIC = b"\x93NUMPY"
HEADER_BYTES = 4096
"""Reading so much from the start of a file gets its whole header, or it is refused."""
_READERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
    (3, 0): npy_format.read_array_header_2_0,
}


class NpyHeader(NamedTuple):
    """dtype and shape of an array, whether the first side varies fastest, where its data begins."""

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the array's data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(data: bytes) -> NpyHeader:
    """Read the header that a file begins with.

    Raises:
        CodecError: it is no .npy file, or its array is not of numbers that a dataset can hold.
    """
    file = io.BytesIO(data[:HEADER_BYTES])
    try:
        version = npy_format.read_magic(file)
        shape, fortran_order, dtype = _READERS[version](file, max_header_size=HEADER_BYTES)
    except (ValueError, KeyError) as error:
        raise CodecError(f"it is no .npy file that can be read: {error}") from None
    if dtype.hasobject or dtype.name not in ITEM_BYTES:
        raise CodecError(f"it holds an array of {dtype}; expected numbers")
    return NpyHeader(dtype, shape, fortran_order and len(shape) > 1, file.tell())


def read_array(data: bytes) -> np.ndarray:
    """Read a whole file.

    Raises:
        CodecError: as by `read_header`, or its data is longer or shorter than its header says.
    """
    header = read_header(data)
    if len(data) - header.offset != header.size_bytes:
        raise CodecError(
            f"its header says {header.size_bytes} bytes of data, but there are "
            f"{len(data) - header.offset}"
        )
    flat = np.frombuffer(data, header.dtype, offset=header.offset)
    flat = flat.astype(header.dtype.newbyteorder("="), copy=False)
    if header.fortran_order:
        return flat.reshape(header.shape[::-1]).T
    return flat.reshape(header.shape)
