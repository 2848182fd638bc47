"""Answers of numba that do not change, worked out once instead of at each step of each compile.

Numba resolves `int64 + int64` for every sum in a kernel, lists the variables of every statement
after every pass, and reports every call into LLVM to one timer per nested compile. That is a third
of the time in Python that a kernel costs. `shortcuts` replaces these functions while a kernel is
compiled. They return what numba's own return, so the code that comes out is the same; only views of
contiguous arrays and errors of assignments become shorter (`stoker.jit.views`,
`stoker.jit.overloads`). Meanwhile Python collects no garbage: its
search for cycles among objects that all live until the compile ends was a seventh of the time.

The replacements are in place only while this process holds numba's compiler lock for a kernel, and
numba's own functions are put back at the end. Importing this module imports numba. Relies on
numba's inner interfaces, which `tests/jit/test_shortcuts.py` holds; a function that a version of
numba does not have is left out.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import llvmlite.binding as untyped_llvm
from numba.core import base, cpu, ir, targetconfig, types
from numba.core import postproc as untyped_postproc
from numba.core import transforms as untyped_transforms

from stoker.jit import overloads, views

llvm: Any = untyped_llvm
postproc: Any = untyped_postproc
transforms: Any = untyped_transforms
target: Any = cpu.CPUContext
flags: Any = targetconfig.TargetConfig
function: Any = types.Function
statement: Any = ir.Inst
processor: Any = postproc.PostProcessor
lookup: Any = base

_NUMBERS: Final = frozenset(
    {types.Integer, types.Float, types.Boolean, types.IntegerLiteral, types.BooleanLiteral}
)
_WITHOUT_VARIABLES: Final = frozenset({str, int, float, bool, type(None), ir.Loc, ir.Scope})
_signatures: dict[tuple[Any, ...], Any] = {}
_hashes: dict[Any, int] = {}
_depth = 0

_numbas_variables: Any = getattr(statement, "_rec_list_vars", None)
_numbas_signature: Any = getattr(function, "get_call_type", None)
_numbas_equality: Any = flags.__eq__
_numbas_run: Any = getattr(processor, "run", None)
_numbas_has_loc: Any = getattr(lookup, "_has_loc", None)
_numbas_function: Any = getattr(target, "get_function", None)


def _variables(self: Any, value: Any) -> list[Any]:
    """Return the variables in a part of a statement."""
    kind = type(value)
    if kind in _WITHOUT_VARIABLES:
        return []
    if kind is ir.Var:
        return [value]
    if kind is list or kind is tuple:
        return _variables_of_all(self, value)
    if kind is dict:
        return _variables_of_all(self, value.values())
    found: list[Any] = _numbas_variables(self, value)
    return found


def _variables_of_all(self: Any, values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is ir.Var:
            found.append(value)
        elif kind not in _WITHOUT_VARIABLES:
            found += _variables(self, value)
    return found


def _is_plain(given: Any) -> bool:
    """Return whether a type is a number or an array of numbers: its hash is cheap."""
    kind = type(given)
    return kind in _NUMBERS or (kind is types.Array and type(given.dtype) in _NUMBERS)


def _signature(self: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a function for plain arguments.

    Overloads are not kept: numba compiles them with the options of the caller.
    """
    if kws or not all(map(_is_plain, args)):
        if (own := overloads.signature_of(self, args)) is not None:
            return own
        return _numbas_signature(self, context, args, kws)
    key = (context, self, *args)
    found = _signatures.get(key)
    if found is None:
        found = _numbas_signature(self, context, args, kws)
        if self._impl_keys.get(found.args) is self.typing_key:
            _signatures[key] = found
    return found


def _equals(self: Any, other: Any) -> Any:
    return self is other or _numbas_equality(self, other)


def _hash(self: Any) -> int:
    """Return numba's hash of options, which covers their names only."""
    kind = type(self)
    if kind not in _hashes:
        _hashes[kind] = hash(tuple(sorted(kind.options)))
    return _hashes[kind]


def _run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Bring blocks into order; lifetimes of variables are computed when a pass asks for them.

    numba also keeps which variables live at the start of a block; only generators and
    object mode read that.
    """
    func_ir = self.func_ir
    if func_ir.is_generator:
        _numbas_run(self, emit_dels, extend_lifetimes)
        return
    func_ir.blocks = transforms.canonicalize_cfg(func_ir.blocks)
    func_ir.variable_lifetime = postproc.VariableLifetime(func_ir.blocks)
    func_ir.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


def _function(self: Any, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
    """Return what emits a call of a function; for views, Stoker's own."""
    build = views.lowering_of(fn, sig) or overloads.lowering_of(fn)
    if build is None:
        return _numbas_function(self, fn, sig, _firstcall)
    plain = sig.as_function()
    return lambda builder, arguments, loc=None: build(self, builder, plain, arguments)


def _has_loc(given: Any) -> Any:
    return _numbas_has_loc(given)


def _look_again(self: Any) -> None:
    """Take what is new in the registries; the outermost compile has imported them all."""
    for registry in list(self._registries):
        self.install_registry(registry)


_ALWAYS: Final[tuple[tuple[Any, str, Callable[..., Any]], ...]] = (
    (statement, "_rec_list_vars", _variables),
    (function, "get_call_type", _signature),
    (flags, "__eq__", _equals),
    (flags, "__hash__", _hash),
    (processor, "run", _run),
    (target, "get_function", _function),
    (lookup, "_has_loc", functools.lru_cache(maxsize=4096)(_has_loc)),
    (overloads.lower, "create_cfunc_wrapper", overloads.no_wrapper),
    (overloads.maker, "create_library", overloads.create_library),
)
_NESTED: Final = ((target, "load_additional_registries", _look_again),)
"""Only inside of another compile."""


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Replace numba's functions for a block; the caller holds numba's compiler lock."""
    global _depth  # noqa: PLW0603 - one count for the process, as there is one compiler lock
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in {0: _ALWAYS, 1: _NESTED}.get(_depth, ()):
            if not hasattr(owner, name):
                continue
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        if _depth == 0:
            stack.enter_context(_without_timers())
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


@contextlib.contextmanager
def _without_timers() -> Iterator[None]:
    """Call into LLVM without reports to numba's timers, whose numbers are not read."""
    callbacks = getattr(getattr(llvm.ffi.lib, "_lock", None), "_cblist", [])
    before = list(callbacks)
    callbacks.clear()
    try:
        yield
    finally:
        callbacks[:0] = before
