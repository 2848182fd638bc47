"""The segments of a JPEG file: everything before and between its entropy-coded data.

Reads ITU-T T.81 (annex B): frame, quantization and Huffman tables, restart interval, scans. Every
step moves forward, so the loop ends; lengths are checked before they are followed. Features that
the rewriting cannot keep exactly raise with the reason; such a file is stored unchanged.
"""

import struct
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stoker.dataset.limits import MAX_SCANS, CodecError, check_pixels
from stoker.jit import compiled, kernel

SOI: Final = b"\xff\xd8"
EOI: Final = b"\xff\xd9"
SOF0, SOF1, SOF2, DHT, RST0, RST7 = 0xC0, 0xC1, 0xC2, 0xC4, 0xD0, 0xD7
SOS, DQT, DNL, DRI, APP0, APP15, COM = 0xDA, 0xDB, 0xDC, 0xDD, 0xE0, 0xEF, 0xFE
_OTHER_FRAMES: Final = {*range(0xC3, 0xD0)} - {DHT, 0xC8}


class UnindexableError(CodecError):
    """A JPEG that cannot be rewritten on a grid with the same pixels; the text says why."""


@dataclass(frozen=True)
class ColorComponent:
    """One color component of the frame: its id, sampling factors and quantization table."""

    id: int
    h: int
    v: int
    quantizer: int


@dataclass(frozen=True)
class HuffmanTable:
    """A Huffman table as in a DHT segment: 16 counts by length, then the symbols."""

    counts: bytes
    symbols: bytes


@dataclass(frozen=True)
class ScanPart:
    """A component of a scan: its place in the frame and its tables (None: not defined yet)."""

    component: int
    dc: HuffmanTable | None
    ac: HuffmanTable | None


@dataclass(frozen=True)
class Scan:
    """One scan: its parts, its band (first and last coefficient, bits), the range of its data."""

    parts: tuple[ScanPart, ...]
    first: int
    last: int
    high: int
    low: int
    restart: int
    start: int
    end: int


@dataclass
class Segments:
    """A JPEG file, read up to its last scan.

    Attributes:
        height: in pixels, as stored.
        width: in pixels, as stored.
        progressive: whether coefficients come in several scans of bands and bits.
        components: in the order of the frame.
        quantizers: number -> (element bytes, the 64 elements as stored).
        kept: APPn and COM segments, whole, in their order.
        scans: in the order of the file.
    """

    height: int = 0
    width: int = 0
    progressive: bool = False
    components: tuple[ColorComponent, ...] = ()
    quantizers: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    kept: list[bytes] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)

    @property
    def h_max(self) -> int:
        """The greatest horizontal sampling factor."""
        return max(part.h for part in self.components)

    @property
    def v_max(self) -> int:
        """The greatest vertical sampling factor."""
        return max(part.v for part in self.components)


def read_segments(data: bytes) -> Segments:
    """Read a JPEG file's segments.

    Raises:
        UnindexableError: the file is valid, but such files cannot be rewritten.
        CodecError: the file is damaged.
    """
    try:
        return _SegmentReader(data).read()
    except (struct.error, IndexError):
        raise CodecError("it is damaged: a segment ends early") from None


class _SegmentReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 2
        self._found = Segments()
        self._tables: dict[tuple[int, int], HuffmanTable] = {}
        self._restart = 0
        self._late_quantizers = False

    def read(self) -> Segments:
        data, found = self._data, self._found
        if data[:2] != SOI:
            raise CodecError("expected a JPEG")
        while True:
            marker = self._marker()
            if marker == 0xD9:
                break
            (length,) = struct.unpack_from(">H", data, self._place)
            body = data[self._place + 2 : self._place + length]
            if length < 2 or len(body) != length - 2:
                raise CodecError("it is damaged: a segment reaches beyond the file")
            self._segment(marker, body, data[self._place - 2 : self._place + length])
        if not found.scans:
            raise CodecError("it is damaged: it has no scan")
        if self._place != len(data):
            raise UnindexableError("bytes after its end, such as further images (MPO)")
        return found

    def _marker(self) -> int:
        data = self._data
        if data[self._place] != 0xFF:
            raise CodecError("it is damaged: bytes outside of any segment")
        while data[self._place] == 0xFF:
            self._place += 1
        self._place += 1
        return data[self._place - 1]

    def _segment(self, marker: int, body: bytes, whole: bytes) -> None:
        self._place += len(body) + 2
        if marker == DQT:
            self._quantizers(body)
        elif marker in (SOF0, SOF1, SOF2):
            self._frame(marker, body)
        elif marker in _OTHER_FRAMES:
            raise UnindexableError(f"frame type 0x{marker:02x} (arithmetic, lossless or layered)")
        elif marker == DHT:
            self._huffman(body)
        elif marker == DRI:
            (self._restart,) = struct.unpack(">H", body)
        elif marker == SOS:
            self._scan(body)
        elif APP0 <= marker <= APP15 or marker == COM:
            self._found.kept.append(whole)
        elif marker == DNL:
            raise UnindexableError("its height follows after the scan")
        else:
            raise UnindexableError(f"segment 0x{marker:02x}")

    def _quantizers(self, body: bytes) -> None:
        place = 0
        while place < len(body):
            precision, number = body[place] >> 4, body[place] & 15
            size = 128 if precision else 64
            elements = body[place + 1 : place + 1 + size]
            if precision > 1 or number > 3 or len(elements) != size:
                raise CodecError("it is damaged: a quantization table")
            table = (2 if precision else 1, elements)
            if self._found.scans and self._found.quantizers.get(number) != table:
                raise UnindexableError("its quantization changes between scans")
            self._found.quantizers[number] = table
            place += 1 + size

    def _frame(self, marker: int, body: bytes) -> None:
        found = self._found
        if found.components:
            raise UnindexableError("several frames")
        precision, found.height, found.width, count = struct.unpack_from(">BHHB", body)
        if precision != 8:
            raise UnindexableError(f"{precision} bits per sample")
        if not found.height:
            raise UnindexableError("its height follows after the scan")
        check_pixels(found.height, found.width)
        if count not in (1, 3):
            raise UnindexableError(f"{count} components")
        if len(body) != 6 + 3 * count:
            raise CodecError("it is damaged: the frame's length")
        found.progressive = marker == SOF2
        parts = [body[6 + 3 * i : 9 + 3 * i] for i in range(count)]
        found.components = tuple(ColorComponent(p[0], p[1] >> 4, p[1] & 15, p[2]) for p in parts)
        if count == 1:  # its sampling factors have no effect
            found.components = (ColorComponent(parts[0][0], 1, 1, parts[0][2]),)
        _check_components(found)

    def _huffman(self, body: bytes) -> None:
        place = 0
        while place < len(body):
            kind, number = body[place] >> 4, body[place] & 15
            counts = body[place + 1 : place + 17]
            symbols = body[place + 17 : place + 17 + sum(counts)]
            if kind > 1 or number > 3 or len(counts) != 16 or len(symbols) != sum(counts):
                raise CodecError("it is damaged: a Huffman table")
            self._tables[kind, number] = HuffmanTable(counts, symbols)
            place += 17 + len(symbols)

    def _scan(self, body: bytes) -> None:
        found = self._found
        if not found.components or len(found.scans) == MAX_SCANS:
            raise CodecError("it is damaged: a scan without a frame, or too many scans")
        count = body[0]
        if len(body) != 4 + 2 * count or not 1 <= count <= len(found.components):
            raise CodecError("it is damaged: the head of a scan")
        ids = [part.id for part in found.components]
        parts = []
        for i in range(count):
            name, chosen = body[1 + 2 * i], body[2 + 2 * i]
            if name not in ids:
                raise CodecError("it is damaged: a scan of an unknown component")
            dc, ac = self._tables.get((0, chosen >> 4)), self._tables.get((1, chosen & 15))
            parts.append(ScanPart(ids.index(name), dc, ac))
        if [part.component for part in parts] != sorted({part.component for part in parts}):
            raise CodecError("it is damaged: the order of a scan's components")
        first, last, bits = body[-3:]
        start = self._place
        self._place = end = _end_of_data(self._data, start)
        found.scans.append(
            Scan(tuple(parts), first, last, bits >> 4, bits & 15, self._restart, start, end)
        )


def _check_components(found: Segments) -> None:
    parts = found.components
    good = all(1 <= part.h <= 4 and 1 <= part.v <= 4 and part.quantizer <= 3 for part in parts)
    if (
        not good
        or sum(part.h * part.v for part in parts) > 10
        or len({p.id for p in parts}) < len(parts)
    ):
        raise CodecError("it is damaged: the frame's components")
    if any(found.h_max % part.h or found.v_max % part.v for part in parts):
        raise UnindexableError("sampling factors that do not divide each other")


def _end_of_data(data: bytes, start: int) -> int:
    """Return the place of the next marker that is neither a stuffed byte nor a restart."""
    end = int(compiled(_marker)(np.frombuffer(data, np.uint8), start))
    if end < 0:
        raise CodecError("it is damaged: it ends within a scan")
    return end


@kernel
def _marker(data: Any, start: int) -> Any:
    for place in range(start, data.size - 1):
        if data[np.uint64(place)] == 0xFF:
            follows = data[np.uint64(place + 1)]
            if follows not in (0, 0xFF) and not RST0 <= follows <= RST7:
                return place
    return -1
