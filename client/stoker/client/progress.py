"""Progress for the user while a Loader waits for its pipeline to be built.

The first use of a pipeline on a host compiles it, which can take a minute. After `FIRST_S` the
Loader says so and shows how many functions are done: in a terminal and a notebook in one line of
standard error that is rewritten; elsewhere in plain lines, every `LATER_S`. Plain lines go to the
logger if it takes INFO, otherwise to standard error. Nothing is shown for a shorter wait, on ranks
other than 0, or if the logger `stoker.client.progress`, or one of its parents below the root
logger, has a level above INFO.

Runs in the thread that makes the Loader; starts no thread. Times are seconds.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

FIRST_S: Final = 1.0
LINE_S: Final = 0.5
LATER_S: Final = 10.0
_log = logging.getLogger("stoker.client.progress")


def is_shown() -> bool:
    """Return whether the user wants to see progress: the logger's level is at most INFO."""
    logger: logging.Logger | None = _log
    while logger is not None and logger is not logging.root:
        if logger.disabled or logger.level > logging.INFO:
            return False
        if logger.level:
            return True
        logger = logger.parent
    return True


class PipelineWait:
    """Shows the wait for one stream; a wait that is not wanted or is short shows nothing."""

    def __init__(self, *, wanted: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._next = self._began + FIRST_S if wanted else float("inf")
        self._done, self._total = 0, 0
        self._shown = 0
        self._rewrites = _rewrites()

    def note(self, done: int, total: int) -> None:
        """Take the number of functions that are done, and the number that are needed."""
        self._done, self._total = done, total

    def show(self) -> float:
        """Show the state if it is time to; return in how many seconds to call this again."""
        now = self._now()
        if now >= self._next:
            self._next = now + (LINE_S if self._rewrites else LATER_S)
            counted = (
                f"compiling, {self._done} of {self._total} functions"
                if self._total
                else ("waiting until it is built")
            )
            self._write(f"stoker: pipeline: {counted}, {now - self._began:.0f} s")
        return self._next - now

    def opened(self, *, stored: bool) -> None:
        """Say that the wait is over, if it was shown.

        Args:
            stored: whether the compiled functions are kept for later starts.
        """
        if self._shown:
            kept = "; later starts load it from the cache" if stored and self._total else ""
            self._write(f"stoker: pipeline: ready after {self._now() - self._began:.0f} s{kept}")

    def close(self) -> None:
        """End the line, so that other output begins on its own."""
        if self._shown and self._rewrites:
            _to_stderr("\n")
        self._shown = 0

    def _write(self, text: str) -> None:
        if self._rewrites:
            _to_stderr("\r" + text.ljust(self._shown))
        elif _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
            _log.info("%s", text.removeprefix("stoker: "))
        else:
            _to_stderr(text + "\n")
        self._shown = len(text)


def _rewrites() -> bool:
    """Return whether a line of standard error can be rewritten: in a terminal or a notebook.

    A notebook's shell has a kernel; IPython in a terminal does not.
    """
    with contextlib.suppress(Exception):  # a closed or replaced standard error
        if sys.stderr.isatty():
            return True
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _to_stderr(text: str) -> None:
    with contextlib.suppress(Exception):  # no or a closed standard error; loading goes on
        sys.stderr.write(text)
        sys.stderr.flush()
