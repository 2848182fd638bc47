"""The modules that a module's source imports, wherever in it, and their files.

A value does not tell where it came from: after `from package.part import K` the module holds a
number. Its source does. Nothing is imported here.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path


def imported_by(module: str, path: str | None) -> list[str]:
    """Return the names that a module may import, in order; some are names of values in modules.

    Args:
        module: its name.
        path: its file; None without a file.
    """
    if path is None:
        return []
    try:
        status = os.stat(path)
    except OSError:
        return []
    is_package = os.path.basename(path) == "__init__.py"
    return list(_found(module, path, is_package, status.st_mtime_ns, status.st_size))


def file_of(module: str) -> str | None:
    """Return the source file of a module, imported or not; None if none is found."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    folders: list[str] | None = None
    spec = None
    parts = module.split(".")
    for end in range(len(parts)):
        try:
            spec = PathFinder.find_spec(".".join(parts[: end + 1]), folders)
        except (ImportError, ValueError, OSError):
            return None
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
    return spec.origin if spec is not None and spec.has_location else None


@functools.lru_cache(maxsize=1024)
def _found(module: str, path: str, is_package: bool, _mtime_ns: int, _size: int) -> tuple[str, ...]:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    package = module if is_package else module.rpartition(".")[0]
    named = {name for node in ast.walk(tree) for name in _names(node, package)}
    parts = [name.split(".") for name in named]
    return tuple(sorted({".".join(p[: end + 1]) for p in parts for end in range(len(p))}))


def _names(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        parts = above if node.level else []
        base = ".".join([*parts, *([node.module] if node.module else [])])
        if base:
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
