"""Replacements for functions of numba, in place while a kernel is compiled.

Numba resolves `int64 + int64` for every sum in a kernel. `shortcuts` keeps such answers. They are
numba's own, so the code that comes out is the same; only views of contiguous arrays and errors of
assignments become shorter (`stoker.jit.lowerings`), and so do parallel loops
(`stoker.jit.wrappers`). Meanwhile Python collects no garbage, because almost all objects live until
the compile ends.

The replacements are in place only while this process holds numba's compiler lock for a kernel, and
numba's own functions are put back at the end. Importing this module imports numba. It relies on
private interfaces of numba; `tests/jit/test_shortcuts.py` has a test of each.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any, Final

from numba.core import cpu, types

from stoker.jit import lowerings, wrappers

target: Any = cpu.CPUContext
function: Any = types.Function

_NUMBERS: Final = frozenset(
    {types.Integer, types.Float, types.Boolean, types.IntegerLiteral, types.BooleanLiteral}
)
_signatures: dict[tuple[Any, ...], Any] = {}
_depth = 0

_numbas_signature: Any = function.get_call_type
_numbas_function: Any = target.get_function


def _is_plain(given: Any) -> bool:
    """Return whether a type is a number or an array of numbers: its hash is cheap."""
    kind = type(given)
    return kind in _NUMBERS or (kind is types.Array and type(given.dtype) in _NUMBERS)


def _signature(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a function for plain arguments.

    Overloads are not kept: numba compiles them with the options of the caller.
    """
    if kws or not all(map(_is_plain, args)):
        if (own := lowerings.signature_of(self, args)) is not None:
            return own
        return _numbas_signature(self, context, args, kws)
    key = (context, self, *args)
    found = _signatures.get(key)
    if found is None:
        found = _numbas_signature(self, context, args, kws)
        if self._impl_keys.get(found.args) is self.typing_key:
            _signatures[key] = found
    return found


def _function(self: Any, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
    """Return what emits a call of a function: Stoker's own, or numba's."""
    build = lowerings.lowering_of(fn, sig)
    if build is None:
        return _numbas_function(self, fn, sig, _firstcall)
    plain = sig.as_function()
    return lambda builder, arguments, loc=None: build(self, builder, plain, arguments)


_REPLACEMENTS: Final[tuple[tuple[Any, str, Callable[..., Any]], ...]] = (
    (function, "get_call_type", _signature),
    (target, "get_function", _function),
    (wrappers.maker, "create_library", wrappers.create_library),
)


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Replace numba's functions for a block; the caller holds numba's compiler lock."""
    global _depth  # noqa: PLW0603 - one count for the process, as there is one compiler lock
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in () if _depth else _REPLACEMENTS:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        stack.enter_context(_without_collector())
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Collect no garbage in a block, in any thread; afterwards as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
