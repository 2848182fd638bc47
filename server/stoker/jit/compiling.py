"""Compiles plain functions to machine code.

    @kernel                                  # still plain Python
    def mean(key, low, high): return uniform_range(key, 0, low, high)

    fast = compiled(mean)                    # the same as machine code, with its callees

`compiled` makes a new function of the kernel's code in which every global that is a kernel is
replaced by its own compiled form, and gives that to numba: no interpreter lock while it runs, no
fastmath. Machine code is kept under `cache_root()` in a folder named by a digest of everything it
depends on, and processes share it. Stored code includes its callees, so they are made only when
something must be compiled. A kernel has two forms: the one that `compiled` returns, and one for
its callers, which is not machine code (`stoker.jit.dispatchers`).

Importing this module, or a module with kernels, does not import numba and does not touch files: the
first call of `compiled` does. With NUMBA_DISABLE_JIT=1 `compiled` returns the plain function, which
gives the same numbers.

A kernel tests before it divides. Division by zero gives 0, inf or nan in Stoker's own kernels, as
in NumPy; it raises in user kernels, as in plain Python, and the engines name the line. Where plain
Python raises a domain error of `math`, machine code gives nan. numba turns uint64 combined with
int64 into float64, so a kernel keeps to one of them.

Any thread may call; the result is cached for the process.
"""

import functools
import importlib
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from stoker.jit.diskcache import (
    cache_root,
    dispatcher,
    is_stored,
    kernel_digest,
    kernel_folder,
    set_cache_root,
)
from stoker.jit.kernels import check_plain, handwritten, kernel, mark_of, referred, where
from stoker.jit.sources import loading, source_digest
from stoker.protocol.errors import BuildError

__all__ = [
    "cache_root",
    "compiled",
    "direct",
    "handwritten",
    "kernel",
    "kernels_done",
    "set_cache_root",
    "source_digest",
]

_TYPED_ELSEWHERE = ("numba", "numpy", "math")
_done: dict[FunctionType, Any] = {}
_callee_forms: dict[FunctionType, Any] = {}
_lock = threading.RLock()


def compiled(fn: Callable[..., Any]) -> Any:
    """Return the numba dispatcher of a kernel; the kernels that it calls are compiled with it.

    Args:
        fn: a function marked with `kernel` or `handwritten`. Only names that its code refers to
            directly are followed: `from module import f`, not `module.f`.

    Returns:
        The dispatcher (or the intrinsic that is its twin); every call returns the same object.

    Raises:
        BuildError: `fn` or a callee is not a kernel, is a closure, calls itself, or has no source
            file.
        ResourceError: the kernel cache cannot be written.
    """
    made = _done.get(fn) if isinstance(fn, FunctionType) else None
    return made if made is not None else _made(check_plain(fn), (), _done)


def direct(fn: Callable[..., Any], *arguments: Any) -> Any:
    """Return what calls the machine code of a kernel, for arguments of the types of these.

    The dispatcher looks at the types of all arguments at every call, which takes microseconds for
    tuples of arrays. This does not: the caller always gives it arrays of the same dtype, rank,
    layout and writability.

    Raises:
        BuildError: as `compiled`.
        ResourceError: as `compiled`.
    """
    fast = compiled(fn)
    if is_disabled():
        return fast
    return fast.compile(tuple(fast.typeof_pyval(value) for value in arguments))


def kernels_done() -> list[FunctionType]:
    """Return the kernels that this process has machine code for, in the order of loading."""
    with _lock:
        made = [fn for fn, fast in _done.items() if getattr(fast, "overloads", None)]
    return [fn for fn in made if (mark := mark_of(fn)) is not None and mark.plain]


def _made(fn: FunctionType, callers: tuple[FunctionType, ...], forms: dict[Any, Any]) -> Any:
    """Return one form of a kernel: the one in `_done`, or the one for its callers."""
    if fn in forms:
        return forms[fn]
    with _lock:
        if fn not in forms:
            forms[fn] = _translate(fn, callers, forms)
        return forms[fn]


def _translate(fn: FunctionType, callers: tuple[FunctionType, ...], forms: dict[Any, Any]) -> Any:
    mark = mark_of(fn)
    if mark is None:
        raise BuildError(f"{where(fn)}: expected a kernel: mark the function with @kernel")
    if fn in callers:
        raise BuildError(f"{where(fn)}: a kernel must not call itself, directly or through others")
    if is_disabled():
        return fn
    if mark.twin is not None:
        twin = _twin(fn, mark.twin)
        return twin if mark_of(twin) is None else _made(twin, (*callers, fn), forms)
    return _dispatch(fn, functools.partial(_callees, fn, callers), forms)


def _callees(fn: FunctionType, callers: tuple[FunctionType, ...]) -> dict[str, Any]:
    """Return the compiled forms of the kernels that a kernel calls, keyed by its names for them.

    Raises:
        BuildError: it is plain Python and calls a function that is not a kernel.
    """
    callees: dict[str, Any] = {}
    mark = mark_of(fn)
    for name, value in referred(fn).items():
        if mark_of(value) is not None and isinstance(value, FunctionType):
            callees[name] = _made(check_plain(value), (*callers, fn), _callee_forms)
        elif (
            isinstance(value, FunctionType)
            and mark is not None
            and mark.plain
            and not _known_to_numba(value)
        ):
            raise BuildError(
                f"{where(fn)} calls {where(value)}, which is not a kernel: mark it with @kernel"
            )
    return callees


def is_missing(fn: Callable[..., Any]) -> bool:
    """Return whether the cache on disk has no machine code of a kernel, and can keep it."""
    fn = check_plain(fn)
    folder = kernel_folder(fn, kernel_digest(fn))
    return folder is not None and not is_stored(folder)


def is_disabled() -> bool:
    """Return whether NUMBA_DISABLE_JIT is set; then nothing is compiled."""
    return bool(_numba().config.DISABLE_JIT)


@functools.cache
def _numba() -> Any:
    return importlib.import_module("numba")


def _known_to_numba(fn: FunctionType) -> bool:
    return (fn.__module__ or "").partition(".")[0] in _TYPED_ELSEWHERE


def _twin(fn: FunctionType, twin: str) -> Any:
    module, _, attribute = twin.partition(":")
    try:
        with loading(module):
            found = importlib.import_module(module)
        return getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise BuildError(f"{where(fn)}: its twin {twin!r} cannot be imported: {error}") from None


def _dispatch(
    fn: FunctionType, callees: Callable[[], dict[str, Any]], forms: dict[Any, Any]
) -> Any:
    """Return the dispatcher of a function; `callees` returns the compiled forms of its callees."""
    inside = forms is _callee_forms
    digest = kernel_digest(fn)
    folder = kernel_folder(fn, digest, inside=inside)
    space = dict(fn.__globals__)
    made = FunctionType(fn.__code__, space, fn.__name__, fn.__defaults__, None)
    made.__module__ = fn.__module__
    # numba names symbols by the qualified name and a counter of the compiling process: two kernels
    # of the same name, cached by two processes, could be linked as one. The digest separates them.
    made.__qualname__ = f"{fn.__qualname__}_{digest[:12]}{'_inside' if inside else ''}"
    made.__doc__ = fn.__doc__
    if not is_stored(folder):
        space.update(callees())
    return dispatcher(made, folder, lambda: space.update(callees()), inside=inside)
