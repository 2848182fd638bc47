"""The form of a file of bit planes, and its parameters. Compiled.

Such a file is a gridded JPEG with three changes: "PL" stands for SOI, a segment of parameters for
the Huffman tables, and intervals are bits of planes, without markers between them. Its grid is that
of a JPEG, of version 2. Specified in docs/contracts/jpeg-planes.md.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

SIGNATURE: Final = b"PL\xff"
"""The first bytes: no JPEG and no PNG, so that nothing takes it for one."""
PARAMETERS: Final = 0xF0
"""Marker of the segment of parameters."""
VERSION: Final = 1
LOW_PLANES: Final = 3
"""Most low bits of a coefficient; how many it has depends on its place and class."""
LEVELS: Final = 12
"""Unary planes; a coefficient beyond them is written out."""
RAW_BITS: Final = 10
"""Bits of a coefficient that is written out: its magnitude, less one."""
WIDTH_BITS: Final = 3
"""Bits of the width of the codes of masks' lengths, one for luma and one for chroma."""
MOST_WIDTH: Final = 7
CODE_BITS: Final = 4
"""Most bits of such a code."""
LEAST_BITS: Final = 9
"""An interval has two bytes at least, as grids demand."""
WHOLE: Final = 15
"""A mask of that length code has all 63 bits, others 4 for each unit of the code."""
MOST_ONES: Final = 24
"""Ones before a DC difference that is written out."""
DC_BITS: Final = 13
"""Bits of a DC difference that is written out, its sign in the lowest one."""
WIDTHS, BASES, RICE = 0, 3, 6
"""In `numbers`: bits and offset of a component's first DC, and the parameter of its Rice code."""
NUMBERS: Final = 9
CLASSES: Final = 2
"""Luma and chroma."""
_DC_PART: Final = 4
"""Bytes of the parameters of a component's DC."""
_AC_PART: Final = 16
"""Bytes of the low bits of a class, two bits for each coefficient."""
MOST_DC_WIDTH: Final = 12
"""Most bits of a component's first DC, and the greatest parameter of its Rice code."""
_MOST_BASE: Final = 2048


def is_planes(data: bytes | memoryview) -> bool:
    """Return whether a stored file is one of bit planes, by its first bytes."""
    return bytes(memoryview(data)[: len(SIGNATURE)]) == SIGNATURE


def jpeg_head(start: bytes | memoryview) -> bytes:
    """Return the first bytes of a stored file; those of bit planes as those of a JPEG."""
    data = bytes(start)
    return b"\xff\xd8" + data[2:] if is_planes(data) else data


@kernel
def parameters_size(components: Any) -> Any:
    """Return the length of the body of the segment of parameters, in bytes."""
    return 1 + _DC_PART * components + _AC_PART * min(components, CLASSES)


def parameters_of(numbers: np.ndarray, shifts: np.ndarray, components: int) -> bytes:
    """Return the body of the segment of parameters.

    Args:
        numbers: (NUMBERS,) int64.
        shifts: (CLASSES, 64) int64: low bits of each coefficient, the first of which is 0.
        components: 1 or 3.
    """
    found = bytearray([VERSION])
    for i in range(components):
        found += bytes([int(numbers[WIDTHS + i]), int(numbers[RICE + i])])
        found += int(numbers[BASES + i]).to_bytes(2, "little", signed=True)
    for row in shifts[: min(components, CLASSES)]:
        quads = row.reshape(_AC_PART, 4) << np.arange(0, 8, 2)
        found += bytes(quads.sum(1).tolist())
    return bytes(found)


def new_parameters() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return room for the parameters of a file, see `read_parameters`."""
    return (
        np.zeros(NUMBERS, np.int64),
        np.zeros(CLASSES * LOW_PLANES, np.uint64),
        np.zeros(CLASSES * 64, np.uint8),
    )


@kernel
def has_planes(data: Any) -> bool:
    """Return whether a file, flat uint8 of at least 2 bytes, is one of bit planes."""
    return bool(data[0] == 0x50 and data[1] == 0x4C)


@kernel
def read_parameters(data: Any, place: Any, count: Any, parameters: Any) -> Any:
    """Read the body of the segment of parameters; return whether it is possible.

    Args:
        data: flat uint8, the file; the body, of the length for `count`, is inside.
        place: where it begins.
        count: components.
        parameters: (numbers, masks, steps): (NUMBERS,) int64; (CLASSES * LOW_PLANES,) uint64,
            which coefficients have more low bits than 0, 1, 2; (CLASSES * 64,) uint8, what a unary
            level adds to each.
    """
    numbers, masks, steps = parameters
    if data[place] != VERSION:
        return False
    place += 1
    for i in range(count):
        width, rice = np.int64(data[place]), np.int64(data[place + 1])
        base = np.int64(data[place + 2]) | np.int64(data[place + 3]) << 8
        base = (base ^ 0x8000) - 0x8000
        if max(width, rice) > MOST_DC_WIDTH or abs(base) > _MOST_BASE:
            return False
        numbers[WIDTHS + i], numbers[BASES + i], numbers[RICE + i] = width, base, rice
        place += _DC_PART
    for i in range(CLASSES * LOW_PLANES):
        masks[i] = 0
    for own in range(min(count, CLASSES)):
        for k in range(64):
            shift = np.int64(data[place + k // 4]) >> (2 * (k % 4)) & 3
            steps[64 * own + k] = 1 << shift
            for j in range(shift):
                masks[LOW_PLANES * own + j] |= np.uint64(1) << np.uint64(k)
        place += _AC_PART
    return True
