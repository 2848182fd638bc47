"""The lines of the user's source where the steps of a pipeline were written.

Sites are stored with a graph but are not part of its identity: moving a line changes no stream. A
site is the innermost frame outside `stoker.pipeline`, `stoker.ops`, `stoker.jit` and NumPy, so a
user's own helper function is named at the line inside it.
"""

from __future__ import annotations

import functools
import os
import sys
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

import numpy as np

_SERVER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OURS = tuple(os.path.join(_SERVER, name, "") for name in ("pipeline", "ops", "jit"))
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


class Site(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "a graph without sources"


NOWHERE = Site("", 0)


def user_site() -> Site:
    """Return the line of user code that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user(frame.f_code):
            return Site(_printable(frame.f_code.co_filename), frame.f_lineno)
        frame = frame.f_back
    return NOWHERE


def raised_at(trace: TracebackType | None) -> Site:
    """Return the innermost line of user code in a traceback."""
    site = NOWHERE
    while trace is not None:
        if is_user(trace.tb_frame.f_code):
            site = Site(_printable(trace.tb_frame.f_code.co_filename), trace.tb_lineno)
        trace = trace.tb_next
    return site


def _printable(name: str) -> str:
    """Return a file's name as UTF-8, in which sites travel; names of files may be other bytes."""
    return name.encode("utf-8", "backslashreplace").decode()


def is_user(code: CodeType) -> bool:
    """Return whether code is neither Stoker's nor NumPy's."""
    made_by_dataclass = code.co_filename == "<string>" and code.co_name == "__init__"
    return not _is_ours(code.co_filename) and not made_by_dataclass


@functools.lru_cache(1024)
def _is_ours(filename: str) -> bool:
    return filename.startswith((*_OURS, _NUMPY))
