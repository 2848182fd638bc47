"""The values that user code reads: tables, numbers and settings that decide what it computes.

A digest of source files does not cover `K = json.load(open(...))`, nor a table that another library
reads. So the values count too that a function reaches by name: globals, defaults, values of its
closure, attributes of modules, and those of the user's functions and classes that it uses in turn.

- Numbers, text, bytes, arrays, tensors and containers of them count by content, objects of users'
  classes by their attributes, a `torch.nn.Module` by its state. Dicts count in their order.
- Objects of other classes do not count: their distribution and its version do.
- A global that a function of its module changes is memory of that function, not data: a cache, a
  counter. It does not count, nor does an attribute that a method changes.
- A path near the user's module counts from there, so both sides may have the folder elsewhere.

Runs where a pipeline is written, and in builders, workers and replayers.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import hashlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path, PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.ops.custom.purity import named

MOST_DEPTH: Final = 64
"""Containers inside of each other; what is deeper counts by its type."""
_SIMPLE: Final[frozenset[type]] = frozenset({int, float, bool, bytes, complex, type(None)})
_CONTAINERS: Final = (dict, list, tuple, set, frozenset)
_CHANGING: Final = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "fill", "insert", "pop",
        "popitem", "popleft", "put", "remove", "reverse", "setdefault", "sort", "update",
    }
)  # fmt: skip
_MAKING: Final = ("__init__", "__new__", "__post_init__")
"""Methods that give an object its attributes."""
IsOwn = Callable[[str], bool]


def reached_values(module: str, thing: Any, is_own: IsOwn) -> dict[str, str]:
    """Return the values that a function, class or object reaches: place -> digest.

    Args:
        module: the module that it is in.
        thing: it.
        is_own: whether a module is a user's.
    """
    file = getattr(sys.modules.get(module), "__file__", None)
    home = os.path.dirname(os.path.abspath(file)) if file else ""
    found: dict[str, str] = {}
    seen: dict[int, Any] = {}
    pending = [(module, thing)]
    while pending:
        place, value = pending.pop()
        if is_data(value):
            found[place] = hashlib.blake2b(
                (found.get(place, "") + _digest(value, home)).encode(), digest_size=16
            ).hexdigest()
        if id(value) not in seen:
            seen[id(value)] = value  # kept, so that its id stays its own
            pending += _parts(place, value, is_own)
    return found


def _parts(place: str, value: Any, is_own: IsOwn) -> Iterator[tuple[str, Any]]:
    """Yield the places and values that a value leads to."""
    if isinstance(value, FunctionType):
        return _of_function(value, is_own)
    if isinstance(value, type):
        return _members(value, is_own)
    if isinstance(value, _CONTAINERS):
        items = value.values() if isinstance(value, dict) else value
        return ((place, item) for item in items if not is_data(item) or _holds(item))
    return iter(()) if is_data(value) else _of_object(place, value, is_own)


def _of_object(place: str, value: Any, is_own: IsOwn) -> Iterator[tuple[str, Any]]:
    if _is_torch(value, "nn", "Module"):
        return chain(_named_items(place, value.state_dict()), ((place, type(value)),))
    if is_own(type(value).__module__):
        changed = _changed(type(value).__module__).attributes
        kept = {name: item for name, item in _attributes(value).items() if name not in changed}
        return chain(_named_items(place, kept), ((place, type(value)),))
    return ((place, part) for part in _wrapped(value))


def _wrapped(value: Any) -> Iterator[Any]:
    """Yield what is inside of an object that Python or a library wraps around functions."""
    if isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, value.keywords)
    elif isinstance(value, property):
        yield from (value.fget, value.fset)
    else:
        for name in ("__wrapped__", "__func__", "py_func"):
            inner = inspect.getattr_static(value, name, None)
            if isinstance(inner, FunctionType):
                yield inner


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list | tuple)


def _named_items(place: str, items: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((f"{place}.{name}", item) for name, item in items.items())


def _members(made: type, is_own: IsOwn) -> Iterator[tuple[str, Any]]:
    """Yield what the user's classes among a class and its bases hold."""
    for base in made.__mro__:
        if is_own(base.__module__):
            for name, value in vars(base).items():
                if callable(value) or not name.startswith("__"):
                    yield f"{base.__module__}.{base.__qualname__}.{name}", value


def _of_function(function: FunctionType, is_own: IsOwn) -> Iterator[tuple[str, Any]]:
    module = function.__module__ or ""
    place = f"{module}.{function.__qualname__}"
    for number, default in enumerate(function.__defaults__ or ()):
        yield f"{place}, default {number}", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"{place}, default of {name}", default
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{place}, {name} around it", cell.cell_contents
        except ValueError:  # not set yet
            continue
    if (wrapped := getattr(function, "__wrapped__", None)) is not None:
        yield place, wrapped
    for owner, name, value, _ in named(function.__code__, function.__globals__):
        home = owner or module
        if (
            is_own(home)
            and name not in _changed(home).globals
            and not isinstance(value, ModuleType)
        ):
            yield f"{home}.{name}", value


class _Changed(NamedTuple):
    """The names of globals, and of attributes of objects, that a module's functions change."""

    globals: frozenset[str]
    attributes: frozenset[str]


_NOTHING: Final = _Changed(frozenset(), frozenset())


def _changed(module: str) -> _Changed:
    """Return what the functions of a module change, by its source; nothing without one."""
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    try:
        status = os.stat(path)
    except OSError:
        return _NOTHING
    return _changed_in(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1024)
def _changed_in(path: str, _mtime_ns: int, _size: int) -> _Changed:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return _NOTHING
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    inside = [node for node in ast.walk(tree) if isinstance(node, functions)]
    later = [node for node in inside if getattr(node, "name", "") not in _MAKING]
    return _Changed(
        frozenset(name for one in inside for node in ast.walk(one) for name in _variables(node)),
        frozenset(name for one in later for node in ast.walk(one) for name in _changes(node)[1:2]),
    )


def _variables(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, ast.Global) else _changes(node)[:1]


def _changes(node: ast.AST) -> list[str]:
    """Return the names of what a piece of code changes: [variable, attribute of it, ...]."""
    target: ast.AST = node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in _CHANGING:
            return []
        target = node.func.value
    elif not isinstance(node, ast.Subscript | ast.Attribute) or isinstance(node.ctx, ast.Load):
        return []
    names: list[str] = []
    while isinstance(target, ast.Subscript | ast.Attribute):
        names += [target.attr] if isinstance(target, ast.Attribute) else []
        target = target.value
    return [target.id, *reversed(names)] if isinstance(target, ast.Name) else []


def _attributes(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__dict__" and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def _is_torch(value: Any, *path: str) -> bool:
    found: Any = sys.modules.get("torch")
    for name in path:
        found = getattr(found, name, None)
    return isinstance(found, type) and isinstance(value, found)


def is_data(value: Any) -> bool:
    """Return whether a value counts by its content."""
    kinds: tuple[type, ...] = (
        *_SIMPLE, *_CONTAINERS, str, range, np.ndarray, np.generic, PurePath,
        np.dtype, enum.Enum, re.Pattern,
    )  # fmt: skip
    return isinstance(value, kinds) or _is_torch(value, "Tensor")


def _digest(value: Any, home: str) -> str:
    total = hashlib.blake2b(digest_size=16)
    for part in _described(value, home, ()):
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()


def _described(value: Any, home: str, inside: tuple[int, ...]) -> Iterator[bytes | memoryview]:
    """Yield the bytes that a value counts as; `inside` are the ids of the containers around it."""
    yield type(value).__name__.encode()
    if isinstance(value, enum.Enum | re.Pattern):
        yield repr(value).encode("utf-8", "surrogatepass")
    elif isinstance(value, str | PurePath):
        yield _placed(str(value), home).encode("utf-8", "surrogatepass")
    elif type(value) in _SIMPLE or isinstance(value, range | np.dtype):
        yield repr(value).encode()
    elif _is_torch(value, "Tensor"):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        with contextlib.suppress(RuntimeError, TypeError, NotImplementedError):  # it has no content
            plain = value.detach().cpu().contiguous().reshape(-1)
            yield plain.view(sys.modules["torch"].uint8).numpy().data
    elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape}".encode()
        yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    elif isinstance(value, np.ndarray):
        yield from _described(value.tolist(), home, inside)
    elif not isinstance(value, _CONTAINERS):
        return
    elif id(value) not in inside and len(inside) < MOST_DEPTH:
        yield from _contained(value, home, (*inside, id(value)))


def _contained(value: Any, home: str, inside: tuple[int, ...]) -> Iterator[bytes | memoryview]:
    if isinstance(value, set | frozenset):
        yield from sorted(_digest(item, home).encode() for item in value)
    elif isinstance(value, tuple | list) and set(map(type, value)) <= _SIMPLE:
        yield repr(list(value)).encode()
    else:
        items = value.items() if isinstance(value, dict) else value
        pairs = items if isinstance(value, dict) else ((item,) for item in items)
        for pair in pairs:
            for item in pair:
                yield from _described(item, home, inside)


def _placed(text: str, home: str) -> str:
    """Return a path near the user's module as it is from there; any other text as it is."""
    if not home or not text.startswith("/"):
        return text
    shared = os.path.commonpath((text, home))
    return f"<{os.path.relpath(text, home)}>" if shared.count("/") > 1 else text
