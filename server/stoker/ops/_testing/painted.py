"""Memory between painted margins: what a kernel writes outside of its own is seen afterwards.

For the contract tests of ops and for the guarded engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from stoker.protocol.layout import ALIGN

MARGIN: Final = 64 * ALIGN


@dataclass
class PaintedMemory:
    """Bytes between painted margins.

    Attributes:
        name: what they are, for messages.
        whole: margins and bytes, one dimension of uint8.
        start: where in `whole` the bytes begin; their address is a multiple of `ALIGN`.
        size: how many there are.
        paint: what everything was painted with.
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
        """Say where a margin was written to, if it was."""
        before = np.flatnonzero(self.whole[: self.start] != self.paint)
        after = np.flatnonzero(self.whole[self.start + self.size :] != self.paint)
        if before.size:
            distance = self.start - int(before[-1])
            return f"wrote {distance} bytes before the start of its {self.name}"
        if after.size:
            return (
                f"wrote {int(after[0])} bytes after the end of its {self.name} of {self.size} bytes"
            )
        return None
