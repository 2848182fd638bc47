"""Progress reports of a process that compiles or does other long work.

A daemon kills a worker or builder that makes no progress. Compiling counts as progress, so a
process that compiles reports it at the beginning, then every `BEAT_S` by a timer signal, and at the
end. A stopped process sends no report. Used by the main thread; in other threads and without a
listener nothing is reported.

A process that compiles a pipeline also counts its functions: `expect` adds functions that it needs,
and `finished` marks one as compiled or found in the cache. Any hashable value names a function,
which counts once in a process.
"""

import signal
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NamedTuple

BEAT_S: Final = 5.0
Listener = Callable[[bool], None]
"""Receives whether the process is compiling."""


class Count(NamedTuple):
    """The functions that a process has, and all that it needs."""

    done: int
    total: int


_functions: dict[Hashable, bool] = {}
"""Needed function -> whether it is compiled or was found."""
_unstored: list[str] = []
_listeners: list[Listener] = []
_depth = 0
_before: list[tuple[Any, tuple[float, float]]] = []
"""The signal's earlier handler and timer, which are restored later."""


def listen(listener: Listener | None) -> None:
    """Report to this function from now on; None ends the reports."""
    _listeners[:] = [] if listener is None else [listener]


def expect(functions: Iterable[Hashable]) -> None:
    """Add functions to those that this process needs."""
    for function in functions:
        _functions.setdefault(function, False)


def finished(function: Hashable) -> None:
    """Mark a function as compiled or found."""
    _functions[function] = True


def count() -> Count:
    """Return the number of functions that this process has, and of those that it needs."""
    return Count(sum(_functions.values()), len(_functions))


def note_unstored(reason: str) -> None:
    """Keep the first reason why a kernel could not be stored."""
    if not _unstored:
        _unstored.append(reason)


def unstored() -> str:
    """Return the first reason why a kernel could not be stored; "" if all were."""
    return _unstored[0] if _unstored else ""


def is_heard() -> bool:
    """Return whether there is a listener."""
    return bool(_listeners)


def progressed() -> None:
    """Report that some long work other than compiling has made progress."""
    if _listeners and threading.current_thread() is threading.main_thread():
        _listeners[-1](_depth > 0)


def begin_compiling() -> None:
    """Report that the process compiles, until `end_compiling`; calls may be nested."""
    global _depth  # noqa: PLW0603 - one count for the process, as there is one timer
    if not _listeners or threading.current_thread() is not threading.main_thread():
        return
    _depth += 1
    if _depth == 1:
        _listeners[-1](True)
        handler = signal.signal(signal.SIGALRM, _beat)
        _before.append((handler, signal.setitimer(signal.ITIMER_REAL, BEAT_S, BEAT_S)))


def end_compiling() -> None:
    """Report the end of what the last `begin_compiling` reported."""
    global _depth  # noqa: PLW0603 - see `begin_compiling`
    if not _depth or threading.current_thread() is not threading.main_thread():
        return
    _depth -= 1
    if not _depth:
        handler, timer = _before.pop()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)
        _listeners[-1](False)


def _beat(_number: int, _frame: Any) -> None:
    if _listeners and _depth:
        _listeners[-1](True)
