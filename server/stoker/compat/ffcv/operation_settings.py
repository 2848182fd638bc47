"""The settings of a loader's operations, as a value that can be compared.

A script may set attributes of operations between epochs. The loader compares their settings with
those at its last build. Numbers, text, arrays and containers are compared by value, other objects
by identity and by their attributes. Functions and everything of torch are compared by identity
alone: an operation calls the module itself, so a change inside it needs no new build.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np


def settings(value: Any) -> Any:
    """Return a comparable form of a value: equal before and after if no setting was changed."""
    return _form(value, ())


def _form(value: Any, inside: tuple[int, ...]) -> Any:
    if id(value) in inside:  # an object that refers to itself
        return "again"
    within = (*inside, id(value))
    if isinstance(value, Mapping):
        value = tuple(value.items())
    if isinstance(value, list | tuple):
        return "sequence", type(value), tuple(_form(item, within) for item in value)
    if isinstance(value, set | frozenset):
        return "set", frozenset(_form(item, within) for item in value)
    return _single(value, within)


def _single(value: Any, within: tuple[int, ...]) -> Any:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=16).digest()
        return "array", value.dtype.str, value.shape, digest
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic | None):
        return type(value).__name__, repr(value)
    inner = None if _opaque(value) else _form(_attributes(value), within)
    return "object", id(value), inner, value  # holds the object, so its id is not used again


def _opaque(value: Any) -> bool:
    """Return whether an object's attributes are not settings: code, and everything of torch."""
    foreign = any(kind.__module__.partition(".")[0] == "torch" for kind in type(value).__mro__)
    return foreign or isinstance(value, type | ModuleType) or callable(value)


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, also those in slots."""
    names = {
        name
        for kind in type(value).__mro__
        for name in (kind.__dict__.get("__slots__") or ())
        if isinstance(name, str)
    }
    slots = {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}
    return {**slots, **getattr(value, "__dict__", {})}
