"""Other functions than kernels, such as operations of FFCV scripts: named by content, and stored.

A kernel is a module's function that refers to constants and other kernels. These functions may be
made at run time: they refer to numbers, arrays and functions of a script, and are compiled with
other options. `content_key` names one by everything that its machine code depends on: its code, the
values that it refers to (the bytes of arrays, the code of functions, transitively), the kernels
that it calls, Stoker's own helpers by their files, and the versions and the processor. A value that
it cannot describe makes no key, and then the function is compiled by each process.

Machine code goes to the cache of kernels (`stoker.jit.diskcache`), under the same locks and checks.
Importing this module does not import numba.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from stoker.jit.diskcache import (
    dispatcher_class,
    kernel_digest,
    kernel_folder,
    stored_dispatcher,
    toolchain,
)
from stoker.jit.kernels import mark_of
from stoker.jit.numba_version import is_supported

VERSIONED: Final = ("builtins", "math", "numba", "numpy", "operator")
"""Modules whose content the versions in a key name."""
CONSTANTS: Final = (bool, int, float, complex, str, bytes, np.generic, np.dtype)


class _UnknownContent(Exception):
    """A value whose content cannot be described."""


def content_key(function: FunctionType, *parts: object) -> str | None:
    """Return the name of a function's machine code, 32 hex digits; None: it cannot be named.

    Args:
        function: plain Python, before anything that it refers to is compiled.
        parts: what else its machine code depends on, such as options; by their text.
    """
    try:
        content = "\n".join(["2", *_lines(function, set()), *map(repr, parts), toolchain()])
    except _UnknownContent:
        return None
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def function_dispatcher(function: FunctionType, options: dict[str, Any], key: str) -> Any:
    """Return the numba dispatcher of a function, whose machine code is stored under a key.

    Args:
        function: refers to compiled functions only.
        options: of numba.
        key: the result of `content_key`.

    Raises:
        ResourceError: the kernel cache cannot be written.
    """
    kind = dispatcher_class("FunctionDispatcher")
    made = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    made.__kwdefaults__, made.__module__ = function.__kwdefaults__, function.__module__
    made.__qualname__ = f"{function.__name__}_{key[:12]}"  # symbols of two processes must differ
    # Only `FunctionDispatcher` gives callees names that stored code of two processes can share.
    folder = kernel_folder(made, key) if is_supported() else None
    return stored_dispatcher(
        lambda stored: kind(made, options, stored=stored), folder, lambda: None
    )


def local_dispatcher(compiler: Callable[..., Any], signature: Any, code: Callable[..., Any]) -> Any:
    """Return a dispatcher of numba's whose code is not stored; it compiles with shortcuts.

    Args:
        compiler: `numba.njit` with options.
        signature: compile for it now; None: compile when it is called.
        code: the function.
    """
    if not is_supported():
        return compiler(signature)(code)
    shortcuts: Any = importlib.import_module("stoker.jit.shortcuts").shortcuts
    locked: Any = importlib.import_module("numba.core.compiler_lock").global_compiler_lock
    with locked, shortcuts():
        made = compiler(signature)(code)
    compile_plainly = getattr(made, "compile", None)
    if compile_plainly is None:  # NUMBA_DISABLE_JIT: the function itself
        return made

    def compile_(sig: Any) -> Any:
        with locked, shortcuts():
            return compile_plainly(sig)

    made.compile = compile_
    return made


def _lines(value: Any, seen: set[Any]) -> Iterator[str]:
    """Yield a description of a value, equal for equal content only."""
    if value is None or isinstance(value, CONSTANTS):
        yield f"{type(value).__name__} {value.hex() if isinstance(value, float) else value!r}"
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16)
        yield f"array {value.dtype.str} {value.shape} {value.flags.c_contiguous} "
        yield digest.hexdigest()
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} of {len(value)}"
        for item in value:
            yield from _lines(item, seen)
    elif isinstance(value, CodeType):
        yield from _code(value, seen)
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__}"
    else:
        yield from _callable(value, seen)


def _callable(value: Any, seen: set[Any]) -> Iterator[str]:
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    inner = getattr(value, "py_func", None)
    if isinstance(inner, FunctionType):
        yield f"compiled {sorted(value.targetoptions.items())!r}"
        yield from _callable(inner, seen)
    elif isinstance(value, FunctionType):
        yield f"function {name}"
        if value not in seen:
            seen.add(value)
            yield from _function(value, seen)
    elif isinstance(value, type | BuiltinFunctionType | np.ufunc) and _is_versioned(value):
        yield f"known {name} {getattr(value, '__name__', '')}"
    else:
        raise _UnknownContent(name)


def _function(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    if mark_of(function) is not None:
        yield kernel_digest(function)
    elif _is_ours(function):
        yield hashlib.blake2b(Path(function.__code__.co_filename).read_bytes()).hexdigest()
    elif not _is_versioned(function):
        yield from _code(function.__code__, seen)
        for value in (function.__defaults__, *(function.__kwdefaults__ or {}).items()):
            yield from _lines(value, seen)
        for cell in function.__closure__ or ():
            yield from _lines(cell.cell_contents, seen)
        names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
        for name in names:
            if name in function.__globals__:
                yield f"global {name}"
                yield from _global(function.__globals__[name], names, seen)


def _global(value: Any, names: list[str], seen: set[Any]) -> Iterator[str]:
    """Yield a description of a global. A user's module is described by what the code uses of it."""
    yield from _lines(value, seen)
    if isinstance(value, ModuleType) and not _is_versioned(value):
        for name in names:
            if hasattr(value, name):
                yield f"attribute {name}"
                yield from _lines(getattr(value, name), seen)


def _code(code: CodeType, seen: set[Any]) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars}"
    yield f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags}"
    for constant in code.co_consts:
        known = sorted(constant, key=repr) if isinstance(constant, frozenset) else constant
        yield from _lines(tuple(known) if isinstance(known, list) else known, seen)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_ours(function: FunctionType) -> bool:
    """Return whether a function is defined in a module of Stoker, and was not made at run time."""
    name = function.__module__ or ""
    module = sys.modules.get(name)
    return (
        name.partition(".")[0] == "stoker"
        and module is not None
        and vars(module) is function.__globals__
        and not function.__closure__
    )


def _is_versioned(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(value, np.ufunc) or (name or "builtins").partition(".")[0] in VERSIONED
