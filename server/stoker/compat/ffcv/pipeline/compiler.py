"""How operations are compiled: the same switches as in FFCV."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numba

from stoker.jit.shortcuts import with_shortcuts


class Compiler:
    """Switches for all loaders of the process that are built later."""

    _enabled: ClassVar[bool] = True

    @classmethod
    def set_enabled(cls, enabled: bool) -> None:
        """Compile operations, or run them as Python, which is slow but easy to debug."""
        cls._enabled = bool(enabled)

    @classmethod
    def is_enabled(cls) -> bool:
        """Whether operations are compiled."""
        return cls._enabled

    @classmethod
    def set_num_threads(cls, count: int) -> None:
        """Set the number of threads for parallel code that this thread calls."""
        numba.set_num_threads(max(1, min(count, _most())))

    @classmethod
    def get_iterable(cls) -> Callable[..., Any]:
        """Return the function that replaces `range` in a parallel loop."""
        iterable: Callable[..., Any] = numba.prange if cls._enabled else range
        return iterable

    @classmethod
    def get_iterator(cls) -> Callable[..., Any]:
        """Return the same function; FFCV's own operations call it by this name."""
        return cls.get_iterable()

    @classmethod
    def compile(cls, code: Callable[..., Any], signature: Any = None) -> Callable[..., Any]:
        """Compile a helper function for use inside an operation."""
        if not cls._enabled:
            return code
        parallel = bool(getattr(code, "is_parallel", False))
        return machine(code, parallel, signature)


def machine(
    code: Callable[..., Any], parallel: bool, signature: Any = None, *, checked: bool = False
) -> Callable[..., Any]:
    """Compile a function like an operation: without the GIL, with NumPy's division.

    With `checked`, an index beyond an array raises IndexError.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "parallel": parallel}
    if checked:
        options["boundscheck"] = True
    made: Callable[..., Any] = with_shortcuts(
        functools.partial(numba.njit, **options), signature, code
    )
    return made


def _most() -> int:
    config: Any = numba.config
    return int(config.NUMBA_NUM_THREADS)
