"""The place in the program that makes a loader, as a name that is the same on all ranks.

Loaders of different ranks belong together if the same lines of the program made them, and if they
have the same number among the loaders of these lines. So a loader that rank 0 makes alone, in other
lines, is compared with no other.
"""

import hashlib
import os
import sys
import threading
from collections import Counter
from types import FrameType, TracebackType
from typing import Final, Self

_PACKAGE: Final = "stoker."
_made: Counter[tuple[str, int]] = Counter()
_lock = threading.Lock()


class CallSite:
    """The place of the loader that is being made.

    As a context manager it takes the number of a loader, and gives it back if the loader fails, so
    that a second attempt has the same one.

    Attributes:
        line: the line that makes it, as text.
        number: number of loaders that the lines have made for the rank, with this one.
    """

    def __init__(self, kind: str, rank: int) -> None:
        """Look at the calls that led here.

        Args:
            kind: what the lines make; only loaders of one kind are counted together.
            rank: the rank that it is for; a process may make those of several ranks.
        """
        self._digest, self.line = _lines(sys._getframe(1), kind)
        self._counted = self._digest, rank
        self.number = 0

    @property
    def name(self) -> str:
        """The lines and the number, the same on all ranks."""
        return f"{self._digest}/{self.number}"

    def __enter__(self) -> Self:
        with _lock:
            _made[self._counted] += 1
            self.number = _made[self._counted]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        with _lock:
            if kind is not None and _made[self._counted] == self.number:
                _made[self._counted] -= 1


def _lines(frame: FrameType | None, kind: str) -> tuple[str, str]:
    """Return a digest of a kind and the lines that lead to a frame, and the last line as text.

    Lines of Stoker do not count, nor do the folders of files, which hosts may have elsewhere.
    """
    lines = []
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            code = frame.f_code
            lines.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}")
        frame = frame.f_back
    digest = hashlib.blake2b("\n".join([kind, *lines]).encode(), digest_size=16).hexdigest()
    return digest, lines[0] if lines else "unknown line"
