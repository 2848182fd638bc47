"""Memory between painted margins, to detect writes of a kernel outside of its own memory.

For the contract tests of ops and for the guarded engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stoker.protocol.slot_layout import ALIGN

MARGIN: Final = 64 * ALIGN


@dataclass
class PaintedMemory:
    """Bytes between painted margins.

    Attributes:
        name: what the bytes are, for messages.
        whole: margins and bytes, one dimension of uint8.
        start: index in `whole` where the bytes begin; their address is a multiple of `ALIGN`.
        size: the number of bytes.
        paint: the initial value of all bytes.
    """

    name: str
    whole: np.ndarray
    start: int
    size: int
    paint: int

    @property
    def inner(self) -> np.ndarray:
        """The bytes."""
        return self.whole[self.start : self.start + self.size]

    @staticmethod
    def painted(name: str, size: int, paint: int) -> PaintedMemory:
        """Return `size` painted bytes between painted margins."""
        whole = np.full(size + 2 * MARGIN + ALIGN, paint, np.uint8)
        start = MARGIN + -(whole.ctypes.data + MARGIN) % ALIGN
        return PaintedMemory(name, whole, start, size, paint)

    def fault(self) -> str | None:
        """Return a description of the write to a margin, if there was one."""
        before = np.flatnonzero(self.whole[: self.start] != self.paint)
        after = np.flatnonzero(self.whole[self.start + self.size :] != self.paint)
        if before.size:
            distance = self.start - int(before[-1])
            return f"wrote {distance} bytes before the start of its {self.name}"
        if after.size:
            offset = self.size + int(after[0])
            return f"wrote at offset {offset} of its {self.name}, which has {self.size} bytes"
        return None
