"""What a traced branch must leave as it was: all that it can reach and did not make itself.

Every branch of an `if` on a value of the sample is traced, so whatever one of them changes in place
would be changed for every sample. `Reached` notes, before the branches are traced, the parts of all
that lies within their reach, and says afterwards what has other parts:

    reach(branch) = its arguments and defaults, the variables round it, the module's variables that
                    it names, and the reach of each: of what a list, dict or set holds, of an
                    object's attributes and methods, of functions

What a branch makes is not there beforehand, so it may be changed. Parts are compared by identity
and found without calling code of the user's. Not followed are Stoker's own objects, caches of
`functools`, and what Python's library and installed packages keep for themselves: the levels that a
logger remembers are no part of a sample. Runs while a pipeline is traced; numba-free.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import operator
import sys
import sysconfig
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
    SimpleNamespace,
)
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.ops.contract.op import Op

_INSTALLED: Final = tuple(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PLAIN: Final[tuple[type[Any], ...]] = (list, tuple, set, frozenset, deque)
_FIXED: Final = frozenset((tuple, frozenset, functools.partial, MethodType, BuiltinMethodType))
_WRAPPERS: Final[tuple[tuple[type[Any], tuple[str, ...]], ...]] = (
    (MethodType, ("__self__", "__func__")),
    (BuiltinMethodType, ("__self__",)),
    (MethodWrapperType, ("__self__",)),
    (functools.partial, ("func", "args", "keywords")),
    (staticmethod, ("__wrapped__",)),
    (classmethod, ("__wrapped__",)),
    (property, ("fget", "fset")),
)
_NAMESPACES: Final = (SimpleNamespace, argparse.Namespace, UserDict, UserList, ChainMap)
"""Classes of Python's library whose attributes are the user's."""
_CALLED: Final = ("__wrapped__", "_define")
"""Attributes that hold a function of the user's: of a cache or a decorator, of a pipeline."""
_LEAVES: Final = frozenset((NoneType, bool, int, float, complex, str, bytes))
_UNSET: Final = object()

Part = tuple[str, Any]
"""What it is called, and the object. ".x" stands behind the name of the whole."""


class _Parts(NamedTuple):
    """The parts of an object; those that have no name, such as what a list holds, come last."""

    names: list[str]
    values: list[Any]

    def same_as(self, other: _Parts) -> bool:
        """Whether these are the same objects under the same names."""
        return (
            len(self.values) == len(other.values)
            and all(map(operator.is_, self.values, other.values))
            and self.names == other.names
        )


class Reached:
    """All that functions and values reach, as it is when this is made.

    Args:
        functions: the branches.
        values: variable name -> value: what the branches are given.
    """

    def __init__(
        self, functions: Iterable[Callable[..., Any]], values: Mapping[str, Any] | None = None
    ) -> None:
        self._noted: list[tuple[str, Any, _Parts]] = []
        found = deque([*(values or {}).items(), *(("", function) for function in functions)])
        seen: set[int] = set()
        while found:
            name, whole = found.popleft()
            parts = None if id(whole) in seen else _parts(whole)
            if parts is not None:
                seen.add(id(whole))
                if not _is_fixed(whole):
                    self._noted.append((name, whole, parts))
                for part, value in zip_longest(*parts, fillvalue=""):
                    if type(value) not in _LEAVES:
                        found.append((_called(part, name), value))

    def changed(self) -> str | None:
        """Return the name of something whose parts are others now; None if all is as it was."""
        for name, whole, before in self._noted:
            after = _parts(whole) or _Parts([], [])
            if not before.same_as(after):
                if not isinstance(whole, FunctionType):
                    return name
                parts = zip(before.names, before.values, after.values, strict=False)
                return next((part for part, old, new in parts if old is not new), name)
        return None


def _is_fixed(value: Any) -> bool:
    """Whether no code of the user's can give an object other parts."""
    if isinstance(value, FunctionType):
        return not _is_users(value.__globals__)
    return type(value) in _FIXED


def _called(part: str, whole: str) -> str:
    return whole + part if not part or part.startswith(".") else part


def _parts(value: Any) -> _Parts | None:
    """Return the parts of an object, in their order; None if it has none that are followed."""
    if type(value) in _LEAVES or isinstance(value, Op | ModuleType):
        return None  # an op is frozen; of a module those variables count that a function names
    if isinstance(value, FunctionType):
        return _named([*_variables(value), *_module_variables(value)])
    if isinstance(value, np.ndarray):
        return _Parts([], [sys.intern(hashlib.blake2b(value.tobytes()).hexdigest())])
    for kind, names in _WRAPPERS:
        if isinstance(value, kind):
            return _Parts([], [getattr(value, name) for name in names])
    held = _held(value)
    attributes = _attributes(value)
    if held is None and attributes is None:
        return None
    parts = _named(attributes or [])
    parts.values.extend(held or [])
    return parts


def _named(parts: list[Part]) -> _Parts:
    return _Parts([name for name, _ in parts], [value for _, value in parts])


def _variables(function: FunctionType) -> Iterator[Part]:
    """Yield what a function has round it, its defaults and its attributes."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name, _content(cell)
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    yield from zip(code.co_varnames[first : code.co_argcount], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    for name, value in vars(function).items():
        yield f"{function.__name__}.{name}", value


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _UNSET


def _module_variables(function: FunctionType) -> Iterator[Part]:
    """Yield the variables of its module that a function names, and so of modules among them."""
    spaces = [function.__globals__] if _is_users(function.__globals__) else []
    for space in spaces:
        for name in _names(function.__code__):
            value = space.get(name, _UNSET)
            yield name, value
            inner = vars(value) if isinstance(value, ModuleType) else space
            if _is_users(inner) and all(inner is not known for known in spaces):
                spaces.append(inner)


@functools.lru_cache(1024)
def _names(code: CodeType) -> tuple[str, ...]:
    """Return what code names besides its local variables, and the functions within it."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return tuple(dict.fromkeys([*code.co_names, *(n for part in inner for n in _names(part))]))


def _held(value: Any) -> list[Any] | None:
    """Return what a container of Python's holds; None if it is none."""
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    for kind in _PLAIN:
        if isinstance(value, kind):
            return list(kind.__iter__(value))
    return None


def _attributes(value: Any) -> list[Part] | None:
    """Return the attributes of a class or object of the user's, with its class or bases."""
    cls = value if isinstance(value, type) else type(value)
    module = sys.modules.get(cls.__module__)
    if cls not in _NAMESPACES and module is not None and not _is_users(vars(module)):
        inner = _dict_of(value)
        return [("", inner[name]) for name in _CALLED if name in inner] or None
    named: Mapping[str, Any] = vars(cls)
    parts: list[Part] = [("", base) for base in cls.__bases__]
    if value is not cls:
        named = _dict_of(value)
        parts = [("", cls), *_slots(value)]
    for name, part in list(named.items()):
        hidden = name.startswith("__") and not isinstance(part, FunctionType)
        if not hidden and not isinstance(vars(cls).get(name), functools.cached_property):
            parts.append((f".{name}", part))
    return parts


def _dict_of(value: Any) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found


def _slots(value: Any) -> Iterator[Part]:
    for base in type(value).__mro__:
        own = vars(base)
        for name in own if "__slots__" in own else ():
            if isinstance(own[name], MemberDescriptorType):
                try:
                    yield f".{name}", own[name].__get__(value)
                except AttributeError:  # it is not set
                    yield f".{name}", _UNSET


def _is_users(space: Mapping[str, Any]) -> bool:
    """Whether a module, by its variables, is neither Stoker's nor installed."""
    name, file = str(space.get("__name__", "")), space.get("__file__")
    if name.partition(".")[0] == "stoker" or name in sys.builtin_module_names:
        return False
    return not (isinstance(file, str) and file.startswith(_INSTALLED))
