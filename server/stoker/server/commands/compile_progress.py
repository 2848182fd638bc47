"""Progress of a command that compiles: how many functions are done, on standard error.

On a terminal one line that is rewritten and goes at the end; elsewhere, as while an image is built,
a line at the first function and then every `LATER_S`. If nothing is compiled, nothing is shown. It
starts no thread, because a process with threads does not compile in several processes.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from stoker.jit import activity

REWRITTEN_S: Final = 0.2
LATER_S: Final = 10.0


@contextlib.contextmanager
def compile_progress(now: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Show the functions that this process compiles inside of the block."""
    shown = _Shown(now)
    activity.listen(shown.note)
    try:
        yield
    finally:
        activity.listen(None)
        shown.clear()


class _Shown:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = self._next = now()
        self._rewrites = sys.stderr.isatty()
        self._width = 0

    def note(self, _compiling: bool) -> None:
        at, (done, total) = self._now(), activity.count()
        if at < self._next or not total:
            return
        self._next = at + (REWRITTEN_S if self._rewrites else LATER_S)
        text = f"compiling: {done} of {total} functions, {at - self._began:.0f} s"
        self._write(f"\r{text:{self._width}}" if self._rewrites else f"{text}\n")
        self._width = len(text)

    def clear(self) -> None:
        if self._rewrites and self._width:
            self._write(f"\r{'':{self._width}}\r")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a closed standard error; compiling goes on
            sys.stderr.write(text)
            sys.stderr.flush()
