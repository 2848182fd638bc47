"""The registry: op name -> op class. Filled by the op modules on import, read by everybody else.

A name can be registered once. The contract tests run over everything that is registered here.
"""

import difflib
from collections.abc import Mapping
from typing import TypeVar

from stoker.ops.contract import Op, ParameterError
from stoker.protocol.canonical import Canonical
from stoker.protocol.errors import UnknownNameError

_OPS: dict[str, type[Op]] = {}
T = TypeVar("T", bound=type[Op])


def register(cls: T) -> T:
    """Register an op class under its name; usable as a decorator.

    Raises:
        ValueError: the name is taken.
    """
    if cls.name in _OPS:
        raise ValueError(f"op {cls.name!r} is registered twice: {_OPS[cls.name]} and {cls}")
    _OPS[cls.name] = cls
    return cls


def lookup(name: str) -> type[Op]:
    """Return the op class of that name.

    Raises:
        UnknownNameError: there is none; the message has the nearest name.
    """
    if name not in _OPS:
        near = difflib.get_close_matches(name, _OPS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(_OPS))}"
        raise UnknownNameError(f"there is no op {name!r}; {hint}", op=name)
    return _OPS[name]


def registered() -> Mapping[str, type[Op]]:
    """Return all registered op classes by name."""
    return dict(_OPS)


def make(name: str, params: Mapping[str, Canonical]) -> Op:
    """Build an op from its name and the plain parameters that a graph holds.

    Lists become tuples, because op parameters are hashable.

    Raises:
        UnknownNameError: there is no such op.
        ParameterError: a parameter is unknown, missing or out of bounds.
    """
    cls = lookup(name)
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in params.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ParameterError(f"{name}: {error}") from None
