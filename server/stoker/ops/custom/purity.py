"""An op may draw only through its key; code that refers to another generator is rejected.

A row is a pure function of its key. numba silently compiles `np.random` inside a kernel to a
generator of each worker, and NumPy's would give other numbers: the row would depend on the process
that computes it. So when a pipeline is bound, the byte code of a user op's functions, and of all
user functions that they call, is searched for names that lead to `random`, `numpy.random` or
`secrets`. Nothing is executed. A generator that reaches a function in another way, as an element of
a container for example, is not found here; `stoker.ops.testing.check_op` runs an op twice and
detects it.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from stoker.ops.contract.kernel_forms import ItemsKernel, Kernel
from stoker.ops.contract.op import Op
from stoker.protocol.errors import BuildError

GENERATORS: Final = ("random", "numpy.random", "secrets")
SILENT: Final = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"})
_OURS: Final = "stoker."
_NOTHING: Final = object()


def check_purity(op: type[Op]) -> None:
    """Refuse a user op whose code names a random number generator; a test checks Stoker's own ops.

    Raises:
        BuildError: names the function, its file and line, and the remedy.
    """
    if op.__module__.startswith(_OURS):
        return
    for function, line, name in impurities(op):
        raise BuildError(
            f"{function.__code__.co_filename}:{line}: {function.__qualname__} uses {name}, so a "
            "row would depend on the process that computes it. Draw in draw() through its key "
            "(stoker.rng.draws), and keep what was drawn in the record",
            op=op.name,
        )


def impurities(op: type[Op]) -> Iterator[tuple[FunctionType, int, str]]:
    """Yield (function, line, name of the generator) of each use in the code of an op."""
    waiting, seen = list(_functions(op)), set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        for value, line in _named(function.__code__, function.__globals__):
            if _is_generator(value):
                yield function, line, _spelled(value)
            elif isinstance(value, FunctionType) and _is_of_user(value):
                waiting.append(value)


def _functions(op: type[Op]) -> Iterator[FunctionType]:
    """Yield the functions of a class and its bases below `Op`, and those of its kernels."""
    for base in op.__mro__[: op.__mro__.index(Op)]:
        for member in vars(base).values():
            kernels = member.values() if isinstance(member, dict) else ()
            for value in (getattr(member, "__func__", member), *kernels):
                if isinstance(value, Kernel | ItemsKernel):
                    yield from (
                        part for part in vars(value).values() if isinstance(part, FunctionType)
                    )
                elif isinstance(value, FunctionType):
                    yield value


def _named(code: CodeType, names: dict[str, Any]) -> Iterator[tuple[Any, int]]:
    """Yield (value, line) of each global name in a code object, attributes of modules followed."""
    yield from ((one.value, one.line) for one in named(code, names))


class Named(NamedTuple):
    """A value that code refers to: its module (None: the code's own), name, value and line."""

    owner: str | None
    name: str
    value: Any
    line: int


def named(code: CodeType, names: dict[str, Any]) -> Iterator[Named]:
    """Yield each value that code refers to by a global name, attributes of modules followed.

    Names without a value are yielded too, with an object of a type that is not used elsewhere.
    """
    value: Any = _NOTHING
    for step in dis.get_instructions(code):
        if step.opname in SILENT:
            continue
        owner = value.__name__ if isinstance(value, ModuleType) else None
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            owner, value = None, names.get(step.argval, getattr(builtins, step.argval, _NOTHING))
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            value = getattr(value, step.argval, _NOTHING)
        else:
            value = _NOTHING
        line = step.positions.lineno if step.positions else None
        yield Named(owner, str(step.argval), value, line or code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from named(constant, names)


def _is_generator(value: Any) -> bool:
    return any(_home(thing) in GENERATORS for thing in (value, getattr(value, "__self__", None)))


def _home(value: Any) -> str:
    """Return the module of a value; for parts of NumPy the public one."""
    if isinstance(value, ModuleType):
        name = value.__name__
    else:
        name = getattr(value, "__module__", None) or type(value).__module__
    return "numpy.random" if str(name).startswith("numpy.random") else str(name)


def _spelled(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    own = getattr(value, "__name__", None) or type(value).__name__
    home = _home(value) if _home(value) in GENERATORS else _home(value.__self__)
    return f"{home}.{own}"


def _is_of_user(function: FunctionType) -> bool:
    return not (function.__module__ or "").startswith((_OURS, "numpy.", "numba."))
