"""The source of a function, and whether its file still has it.

Python finds the source of a function by file and line, at the time of the question. After an edit
of the file it finds other lines. So the text that it finds is compiled: unless that gives the code
of the function, at its line, the file was edited. The source of a function that is traced later can
be kept from the time of its definition on.

Only files that Python itself has compiled are compared. pytest, for example, changes the code of
the modules that it imports.
"""

import dis
import functools
import inspect
import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

Key = tuple[CodeType, str, str]
Source = tuple[list[str], int]
"""The lines of a file, and the index of the first one of a function."""
_kept: dict[Key, Source | None] = {}


def key_of(fn: FunctionType) -> Key:
    """Return what identifies a function's code: two files may contain equal code."""
    return fn.__code__, fn.__code__.co_filename, fn.__qualname__


def keep_source(fn: FunctionType) -> None:
    """Keep the source of a function until it is asked for; None without a source."""
    _kept[key_of(fn)] = _source_now(fn)


def source_of(fn: FunctionType) -> Source | None:
    """Return the source of a function: what was kept, else what its file has now."""
    key = key_of(fn)
    return _kept.pop(key) if key in _kept else _source_now(fn)


def _source_now(fn: FunctionType) -> Source | None:
    try:
        return inspect.findsource(inspect.unwrap(fn))
    except (OSError, TypeError):
        return None


def is_edited(fn: FunctionType, text: str = "") -> bool:
    """Return whether a function's file no longer has its source; False if that is not known.

    Args:
        fn: the function.
        text: what the file had when the source was read; empty: what it has now.
    """
    module = fn.__module__ or ""
    loader = getattr(sys.modules.get(module), "__loader__", None)
    if type(loader) is not SourceFileLoader or module.startswith("stoker."):
        return False
    path = fn.__code__.co_filename
    try:
        content = text or Path(path).read_bytes()
    except OSError:
        return False
    return fn.__code__ not in _codes_of(path, content)


def has_branches(code: CodeType) -> bool:
    """Return whether the code, or a function inside of it, decides anything."""
    decides = any(
        step.opcode in (*dis.hasjrel, *dis.hasjabs) or step.opname in ("UNARY_NOT", "CONTAINS_OP")
        for step in dis.get_instructions(code)
    )
    return decides or any(map(has_branches, _inside(code)))


@functools.lru_cache(maxsize=16)
def _codes_of(path: str, content: str | bytes) -> frozenset[CodeType]:
    """Return the codes of all functions of a file; none if it cannot be compiled."""
    try:
        with warnings.catch_warnings(action="ignore"):  # the import has shown them
            code = compile(content, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(_all_inside(code))


def _all_inside(code: CodeType) -> Iterator[CodeType]:
    for part in _inside(code):
        yield part
        yield from _all_inside(part)


def _inside(code: CodeType) -> Iterator[CodeType]:
    return (part for part in code.co_consts if isinstance(part, CodeType))
