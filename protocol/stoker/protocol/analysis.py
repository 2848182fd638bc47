"""Types that msgspec reads values into, analyzed once and in one thread.

msgspec analyzes a class when it is first used. It keeps the result with the class, where other
threads find it before it is complete; one that reads a value into the class then follows null
pointers, and the process ends with SIGSEGV (msgspec 0.22). Loaders are made in several threads, and
have some of their own. So each type passes through `analyzed` before msgspec sees it.

The lock is taken around forks too, so that no child inherits half of an analysis.
"""

import os
import threading
from typing import Any, TypeVar

import msgspec

_Type = TypeVar("_Type")
_lock = threading.RLock()
_done: set[Any] = set()


def analyzed(kind: _Type) -> _Type:
    """Return a type, once msgspec knows it and all that it contains.

    Args:
        kind: a class, or an annotation such as a union or a list of classes; hashable.
    """
    if kind not in _done:
        with _lock:
            msgspec.msgpack.Decoder(kind)
            _done.add(kind)
    return kind


os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)
