"""Bit planes read in plain Python, from docs/contracts/jpeg-planes.md alone."""

import struct

import numpy as np

LOW_PLANES, LEVELS, RAW_BITS = 3, 12, 10


class Parameters:
    """The body of the segment 0xFFF0."""

    def __init__(self, body: bytes) -> None:
        count = 1 if len(body) == 21 else 3
        assert body[0] == 1
        assert len(body) == 1 + 4 * count + 16 * min(count, 2)
        parts = [body[1 + 4 * i : 5 + 4 * i] for i in range(count)]
        self.widths = [part[0] for part in parts]
        self.rice = [part[1] for part in parts]
        self.bases = [struct.unpack("<h", part[2:])[0] for part in parts]
        tables = [body[1 + 4 * count + 16 * i :][:16] for i in range(min(count, 2))]
        self.shifts = [[table[k // 4] >> 2 * (k % 4) & 3 for k in range(64)] for table in tables]


class Bits:
    """Bits, the lowest one of each byte first."""

    def __init__(self, data: bytes) -> None:
        self.rest, self.read = int.from_bytes(data, "little"), 0

    def take(self, count: int) -> int:
        value = self.rest & ((1 << count) - 1)
        self.rest >>= count
        self.read += count
        return value


def read_interval(data: bytes, components: list[int], parameters: Parameters) -> np.ndarray:
    """Return the coefficients of an interval, (blocks, 64), each block in zigzag order."""
    bits, kinds = Bits(data), [min(i, 1) for i in components]
    widths = [bits.take(3), bits.take(3)]
    codes = [bits.take(widths[kind]) for kind in kinds]
    found = np.zeros((len(components), 64), np.int64)
    found[:, 0] = first_coefficients(bits, components, parameters)
    masks = [bits.take(63 if code == 15 else 4 * code) for code in codes]
    blocks = [Block(mask, parameters.shifts[kind]) for mask, kind in zip(masks, kinds, strict=True)]
    for block in blocks:
        block.read_first_planes(bits)
    for _ in range(1, LEVELS):
        for block in blocks:
            block.read_level(bits)
    for row, block in zip(found, blocks, strict=True):
        block.read_large(bits)
        for k in block.places:
            row[k] = -block.magnitude[k] if block.negative[k] else block.magnitude[k]
    assert len(data) == max((bits.read + 7) // 8, 2), "the interval ends with its last byte"
    return found


def first_coefficients(bits: Bits, components: list[int], parameters: Parameters) -> list[int]:
    """Return DC of each block."""
    found, before = [], {}
    for i in components:
        if i not in before:
            before[i] = parameters.bases[i] + bits.take(parameters.widths[i])
        else:
            before[i] += difference(bits, parameters.rice[i])
        found.append(before[i])
    return found


class Block:
    """The other coefficients of a block, while they are read."""

    def __init__(self, mask: int, shift: list[int]) -> None:
        self.places = [k for k in range(1, 64) if mask >> (k - 1) & 1]
        self.above = self.places
        self.shift, self.magnitude = shift, dict.fromkeys(self.places, 1)

    def read_first_planes(self, bits: Bits) -> None:
        self.negative = {k: bits.take(1) for k in self.places}
        for plane in range(LOW_PLANES):
            for k in self.places:
                if self.shift[k] > plane:
                    self.magnitude[k] += bits.take(1) << plane
        self.read_level(bits)

    def read_level(self, bits: Bits) -> None:
        self.above = [k for k in self.above if bits.take(1)]
        for k in self.above:
            self.magnitude[k] += 1 << self.shift[k]

    def read_large(self, bits: Bits) -> None:
        for k in self.above:
            self.magnitude[k] = bits.take(RAW_BITS) + 1


def difference(bits: Bits, rice: int) -> int:
    """Read a difference of DC."""
    ones = 0
    while ones < 24 and bits.take(1):
        ones += 1
    code = bits.take(13) if ones == 24 else ones << rice | bits.take(rice)
    return -(code + 1) // 2 if code % 2 else code // 2
