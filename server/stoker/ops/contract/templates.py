"""Kernels made from a template and a kernel that it calls, without source of their own.

A template is a kernel of a module that has a global `rule`; `adapted` returns a copy whose `rule`
is another kernel. Both are cached under a digest of both.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from stoker.jit import kernel

_parts: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[..., Any]]] = {}


@functools.cache
def adapted(template: Any, to: Callable[..., Any]) -> FunctionType:
    """Return a template whose `rule` is a kernel; every call returns the same function.

    Args:
        template: a kernel that calls `rule`.
        to: the kernel to call.
    """
    space = {**template.__globals__, "rule": to}
    made = FunctionType(template.__code__, space, f"{template.__name__}_{to.__name__}")
    made.__module__ = template.__module__
    made.__qualname__ = f"{template.__name__}({to.__module__}.{to.__qualname__})"
    _parts[made] = template, to
    return kernel(made)


def parts_of(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """Return the template and rule behind a result of `adapted`; None for other functions."""
    return _parts.get(fn)
