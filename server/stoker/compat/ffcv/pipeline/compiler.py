"""Switches for compiling operations, the same as in FFCV."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

import numba

from stoker.jit.functions import function_dispatcher, local_dispatcher


class Compiler:
    """Switches for all loaders of the process that are built later."""

    _enabled: ClassVar[bool] = True

    @classmethod
    def set_enabled(cls, enabled: bool) -> None:
        """Compile operations, or run them as Python, which is slow but easy to debug."""
        cls._enabled = bool(enabled)

    @classmethod
    def is_enabled(cls) -> bool:
        """Return whether operations are compiled."""
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
    code: Callable[..., Any],
    parallel: bool,
    signature: Any = None,
    *,
    checked: bool = False,
    key: Callable[..., str | None] | None = None,
) -> Callable[..., Any]:
    """Compile a function like an operation: without the GIL, with NumPy's division.

    Args:
        code: the function.
        parallel: whether its loops over `prange` run on several cores.
        signature: compile for it now; None: when it is called.
        checked: whether an index beyond an array raises IndexError.
        key: gets the options and returns the name under which its code is stored; None: it is
            compiled by this process alone.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "parallel": parallel}
    if checked:
        options["boundscheck"] = True
    config: Any = numba.config
    name = None if key is None or config.DISABLE_JIT else key(sorted(options.items()))
    if name is not None and isinstance(code, FunctionType):
        stored: Callable[..., Any] = function_dispatcher(code, options, name)
        return stored
    made: Callable[..., Any] = local_dispatcher(
        functools.partial(numba.njit, **options), signature, code
    )
    return made


def _most() -> int:
    config: Any = numba.config
    return int(config.NUMBA_NUM_THREADS)
