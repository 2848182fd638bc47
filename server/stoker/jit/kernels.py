"""The mark of a kernel: a plain function that may be compiled.

`kernel` returns the function unchanged, so a kernel is still plain Python that anybody may call,
step through and test. The mark only says that `stoker.jit.compiled` may compile it, and
whether a hand-written compiled twin replaces it. This module never imports numba.
"""

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeVar, overload

from stoker.protocol.errors import BuildError

MARK = "__stoker_kernel__"
F = TypeVar("F", bound=Callable[..., Any])


class Mark(NamedTuple):
    """The content of the mark.

    Attributes:
        twin: `module:attr` of the hand-written compiled form, or None.
        plain: whether the function runs as plain Python; a hand-written twin does not have to.
    """

    twin: str | None
    plain: bool = True


@overload
def kernel(fn: F, *, twin: str | None = None) -> F: ...
@overload
def kernel(fn: None = None, *, twin: str | None = None) -> Callable[[F], F]: ...


def kernel(fn: F | None = None, *, twin: str | None = None) -> F | Callable[[F], F]:
    """Mark a plain function as one that may be compiled; return it unchanged.

    Args:
        fn: a module-level function. Besides its arguments it uses only constants and other
            kernels, imported by name (`from module import f`, not `module.f`).
        twin: `module:attr` of a hand-written compiled function or intrinsic that computes the same.

    Raises:
        BuildError: `fn` is not a plain function, closes over variables, has keyword-only
            parameters, or `twin` has another form.
    """
    if twin is not None and not _is_reference(twin):
        raise BuildError(f"kernel twin: expected 'module:attribute', got {twin!r}")

    def mark(function: F) -> F:
        check_plain(function)
        setattr(function, MARK, Mark(twin))
        return function

    return mark if fn is None else mark(fn)


def handwritten(fn: Callable[..., Any]) -> Any:
    """Mark a twin: a function written for numba, which is compiled only; return it unchanged.

    For modules of twins. It may call kernels and twins by name, and everything that numba supports.

    Raises:
        BuildError: `fn` is not a plain function, closes over variables or has keyword-only
            parameters.
    """
    setattr(check_plain(fn), MARK, Mark(None, plain=False))
    return fn


def mark_of(value: object) -> Mark | None:
    """Return the mark of a kernel, or None for anything else."""
    mark = getattr(value, MARK, None) if isinstance(value, FunctionType) else None
    return mark if isinstance(mark, Mark) else None


def check_plain(fn: object) -> FunctionType:
    """Check that a kernel is a plain function of positional arguments that is not a closure.

    Raises:
        BuildError: it is something else.
    """
    if not isinstance(fn, FunctionType):
        raise BuildError(f"kernel: expected a plain function, got {type(fn).__name__} {fn!r}")
    if fn.__code__.co_freevars:
        names = ", ".join(fn.__code__.co_freevars)
        raise BuildError(
            f"{where(fn)}: a kernel must not close over variables of its enclosing function, this"
            f" one uses {names}: pass them as arguments or make them constants of the module"
        )
    if fn.__code__.co_kwonlyargcount or fn.__code__.co_flags & inspect.CO_VARKEYWORDS:
        raise BuildError(
            f"{where(fn)}: a kernel takes positional arguments only: remove '*' and '**' from its"
            " parameters"
        )
    return fn


def is_ours(fn: Callable[..., Any]) -> bool:
    """Return whether a function is Stoker's own: division by zero is not an error, as in NumPy."""
    return (fn.__module__ or "").partition(".")[0] == "stoker"


def where(fn: FunctionType) -> str:
    """Return `module.name (file:line)` of a function, for messages."""
    code = fn.__code__
    return f"{fn.__module__}.{fn.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def referred(fn: FunctionType) -> dict[str, object]:
    """Return the globals that a function's code names, sorted by name.

    An attribute with the name of a global counts too, which is harmless.
    """
    names: set[str] = set()
    pending: list[CodeType] = [fn.__code__]
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending.extend(item for item in code.co_consts if isinstance(item, CodeType))
    return {name: fn.__globals__[name] for name in sorted(names) if name in fn.__globals__}


def _is_reference(text: str) -> bool:
    module, colon, attribute = text.partition(":")
    parts = [*module.split("."), attribute]
    return bool(colon) and all(part.isidentifier() for part in parts)
