"""Digests of everything that a kernel's machine code depends on.

There are two digests, because a file and what a process loaded from it may differ: `source_digest`
reads the source files, `loaded_digest` reads the code and constants in memory. A cache entry named
by both cannot miss an edit, and is never filled with old code after a file was edited under a
running process. The files of twins count as they were when this process imported them (`loading`).

From a function, every kernel (and every compiled function) among the globals of its module is
followed, transitively. The twin of a kernel counts as its module and the modules that this imports
of the same top-level package, transitively; they are found by their text, so nothing needs to be
imported. A package among them counts as its `__init__.py` alone, so the compiler (`stoker.jit`) is
named by `diskcache.FORMAT`. Only names that are imported directly are followed.
"""

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

from stoker.jit.kernels import mark_of, referred, where
from stoker.protocol.errors import BuildError

_IMPORT = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+([\w.]+)(?:[ \t]+import[ \t]+(\([^)]*\)|[^\n]*))?", re.MULTILINE
)
_imported: dict[str, str] = {}
"""Module that a twin needs -> digest of its file when this process imported it."""


def source_digest(fn: FunctionType) -> str:
    """Return the digest of every source file that a kernel's compiled form may depend on.

    Args:
        fn: the kernel.

    Returns:
        32 hex digits. Equal sources give equal digests in any folder.
        A callee's source or twin that does not exist counts as empty: compiling reports it.

    Raises:
        BuildError: the source of `fn` is not on disk.
    """
    if not os.path.isfile(fn.__code__.co_filename):
        raise BuildError(
            f"{where(fn)}: the source of a kernel must be a file on disk, so that edits are"
            " detected: move it into a module"
        )
    files: set[tuple[str, str]] = set()
    for function in _reachable(fn, whole_module=True):
        files.add((function.__module__ or "", function.__code__.co_filename))
        mark = mark_of(function)
        if mark is not None and mark.twin is not None:
            files.update(_twin_files(mark.twin.partition(":")[0]))
    total = hashlib.blake2b(digest_size=16)
    contents = ((name, _imported.get(name) or _content_digest(path)) for name, path in files)
    for name, content in sorted(contents):
        total.update(f"{name}={content}\n".encode())
    return total.hexdigest()


@contextlib.contextmanager
def loading(module: str) -> Iterator[None]:
    """Note what the files of a twin contain while it is imported.

    An edit after that does not change the code of this process.
    """
    files = [(name, path) for name, path in _twin_files(module) if name not in sys.modules]
    contents = {name: _content_digest(path) for name, path in files}
    yield
    for name, content in contents.items():
        if name in sys.modules:
            _imported.setdefault(name, content)


def loaded_digest(fn: FunctionType) -> str:
    """Return the digest of the code and constants in memory that a kernel uses, transitively."""
    lines = []
    for function in _reachable(fn, whole_module=False):
        constants = {name: _constant(value) for name, value in referred(function).items()}
        lines.append(
            f"{function.__module__}.{function.__qualname__} {_code(function.__code__)}"
            f" {_constant(function.__defaults__)} {constants}"
        )
    return hashlib.blake2b("\n".join(sorted(lines)).encode(), digest_size=16).hexdigest()


def _reachable(fn: FunctionType, *, whole_module: bool) -> Iterator[FunctionType]:
    seen = {fn}
    pending = [fn]
    scanned: set[int] = set()
    while pending:
        function = pending.pop()
        yield function
        space = function.__globals__ if whole_module else referred(function)
        if whole_module and id(space) in scanned:
            continue
        scanned.add(id(space))
        for value in list(space.values()):
            found = _function_in(value)
            if found is not None and found not in seen:
                seen.add(found)
                pending.append(found)


def _function_in(value: object) -> FunctionType | None:
    """Return the kernel behind a global: itself, or the plain function of a compiled one."""
    if isinstance(value, FunctionType):
        return value if mark_of(value) is not None else None
    inner = getattr(value, "py_func", None)
    return inner if isinstance(inner, FunctionType) else None


@functools.cache
def _twin_files(module: str) -> tuple[tuple[str, str], ...]:
    """Return (module, path) of every file of a twin, listed at the first call.

    The content of the files is read every time.
    """
    found = {module: _place_of(module) or ""}
    pending = [module]
    while pending:
        name = pending.pop()
        for other in _imports_of(name, found[name]):
            if other not in found and (place := _place_of(other)) is not None:
                found[other] = place
                pending.append(other)
    return tuple(found.items())


@functools.cache
def _imports_of(module: str, path: str) -> Sequence[str]:
    """Return what a module imports of its top-level package, and may be a module.

    Of a package, nothing.
    """
    if path.endswith("__init__.py"):
        return ()
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return ()
    package = module.rpartition(".")[0]
    top = module.partition(".")[0]
    names = set()
    for origin, imported in _IMPORT.findall(text):
        name = importlib.util.resolve_name(origin, package)
        if name.partition(".")[0] == top:
            names |= {name, *(f"{name}.{word}" for word in re.findall(r"\w+", imported))}
    return sorted(names)


@functools.cache
def _place_of(module: str) -> str | None:
    """Return the file of a module, without importing it; None if it has none."""
    top, *parts = module.split(".")
    roots = getattr(sys.modules.get(top), "__path__", sys.path if not parts else ())
    for root in roots:
        base = Path(root, *parts) if parts else Path(root, top)
        for place in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if place.is_file():
                return str(place)
    return None


def _content_digest(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "absent"
    return _hash_file(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=4096)
def _hash_file(path: str, _mtime_ns: int, _size: int) -> str:
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()


def _code(code: CodeType) -> str:
    constants = [_constant(item) for item in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _constant(value: object) -> str:
    """Describe a value that machine code may hold as a constant; other values by their type."""
    import numpy as np  # noqa: PLC0415 - the command line imports this package, and must not wait

    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, np.ndarray):
        content = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16)
        return f"array {value.dtype} {value.shape} {content.hexdigest()}"
    if isinstance(value, tuple | frozenset):
        items = [_constant(item) for item in value]
        order = items if isinstance(value, tuple) else sorted(items)
        return f"{type(value).__name__} ({', '.join(order)})"
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, int | str | bytes | complex | np.generic | np.dtype):
        return f"{type(value).__name__} {value!r}"
    return type(value).__name__
