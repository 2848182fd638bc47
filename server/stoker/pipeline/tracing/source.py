"""The source of a function, as long as it is what the function was compiled from.

`inspect` reads the file as it is now. If it was edited after this process imported it, the text at
the function's lines may be another function, or a newer one. Rewriting that would run code which
the process has not imported, without a word.
"""

import inspect
import os
import time
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Final

from stoker.protocol.errors import BuildError

_BEGUN: Final = time.time()


def source_lines(fn: FunctionType) -> tuple[list[str], int]:
    """Return the lines of a function's source, and the number of the first.

    Raises:
        OSError: the source cannot be read.
        TypeError: it has none.
        BuildError: the file was edited after it was imported, and no longer has this function.
    """
    code = fn.__code__
    if _edited(code.co_filename) and not _has(code.co_filename, code):
        raise BuildError(
            f"{code.co_filename}:{code.co_firstlineno}: the file was edited after this process "
            f"imported {fn.__qualname__} from it, and functions are rewritten from their source: "
            "restart the process",
            file=code.co_filename,
            line=code.co_firstlineno,
        )
    return inspect.getsourcelines(fn)


def _edited(file: str) -> bool:
    try:
        return os.stat(file).st_mtime > _BEGUN
    except OSError:
        return False


def _has(file: str, code: CodeType) -> bool:
    """Whether a file, compiled now, has this code at the same line."""
    try:
        with open(file, "rb") as opened:
            whole = compile(opened.read(), file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        return False
    return any(_same(found, code) for found in _codes(whole))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _same(one: CodeType, other: CodeType) -> bool:
    def about(code: CodeType) -> tuple[object, ...]:
        constants = tuple(c for c in code.co_consts if not isinstance(c, CodeType))
        return (
            code.co_name, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames,
            code.co_freevars, repr(constants),
        )  # fmt: skip

    parts = list(_codes(one)), list(_codes(other))
    return list(map(about, parts[0])) == list(map(about, parts[1]))
