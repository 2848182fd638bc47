"""Dispatchers of kernels that Python calls, and of kernels that only kernels call.

numba makes three things of every function: an optimized module, machine code, and a wrapper that
Python calls. A kernel that only other kernels call needs neither of the last two: its code is
copied into its callers, optimized there, and only there becomes machine code. So a `Callee` stops
at bitcode. Callees with loops are optimized before they are copied: afterwards LLVM cannot prove
that the arrays do not overlap, because callers cut them from one scratch, and does not vectorize
the loops. Callees without loops are optimized in their callers only.

Both forms of a kernel compute the same. Importing this module imports numba. It relies on private
interfaces of numba's code libraries and caches; `tests/jit/test_callees.py` has a test of each.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable
from typing import Any, Final, NoReturn

import llvmlite.binding as untyped_llvm
from numba.core import codegen, compiler, typed_passes, types
from numba.core.compiler_machinery import PassManager, register_pass

from stoker.jit.compiler_tables import fill_for_users
from stoker.jit.kernels import is_ours
from stoker.jit.shortcuts import shortcuts
from stoker.jit.stored import CheckedCache, Entries, StoredDispatcher
from stoker.jit.uncounted import Uncounted, runtime

llvm: Any = untyped_llvm
library: Any = codegen.JITCodeLibrary
generator: Any = codegen.JITCPUCodegen
lowering: Any = typed_passes.NativeLowering
_register: Any = register_pass
_type_of: Any = types.unliteral


@functools.cache
def has_loops(fn: Callable[..., Any]) -> bool:
    """Return whether a function's code jumps back."""
    jumps = {*dis.hasjrel, *dis.hasjabs}
    steps = dis.get_instructions(fn)
    return any(step.opcode in jumps and step.argval <= step.offset for step in steps)


@functools.cache
def has_for_loops(fn: Callable[..., Any]) -> bool:
    """Whether a function's code has loops over iterators, such as `range`."""
    return any(step.opname == "FOR_ITER" for step in dis.get_instructions(fn))


class BitcodeLibrary(Uncounted):
    """The code of one kernel, for its callers to copy; never machine code.

    Attributes:
        has_loops: whether to optimize it apart from its callers.
    """

    has_loops = False
    leaves_open = True

    def add_linking_library(self, linked: Any) -> None:
        """Link another library, but not numba's runtime, which callers link."""
        if linked is not runtime.library:
            super().add_linking_library(linked)

    def _optimize_functions(self, module: Any) -> None:
        """Run the passes over single functions; numba also makes some for mere declarations."""
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize(self) -> None:
        """Run all passes over loops; else what numba runs first, which inlines nothing yet."""
        if self.has_loops:
            super()._optimize()
            return
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_specific(self) -> None:
        """Make no machine code."""

    def get_pointer_to_function(self, _name: str) -> int:
        """Return 0: there is no machine code."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> Any:
        """Return what the cache keeps: bitcode."""
        return self.serialize_using_bitcode()


class BitcodeGenerator(generator):  # type: ignore[misc]
    """A code generator whose modules never reach the execution engine."""

    _library_class = BitcodeLibrary

    def _add_module(self, module: Any) -> None:
        """Keep the module out of the engine."""

    def set_env(self, env_name: str, env: Any) -> None:
        """Set nothing: a function's environment is set with its machine code."""


@functools.cache
def _generator() -> Any:
    return BitcodeGenerator("stoker.callees")


def _context(target: Any) -> Any:
    """Return a target context that makes bitcode."""
    return target.subtarget(_internal_codegen=_generator())


@_register(mutates_CFG=True, analysis_only=False)
class BitcodeLowering(lowering):  # type: ignore[misc]
    """Lowering to bitcode."""

    _name = "stoker_bitcode_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower with a context that makes bitcode."""
        state.targetctx = _context(state.targetctx)
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.library.has_loops = has_loops(state.func_id.func)
        state.library.describe(state)
        done: bool = super().run_pass(state)
        return done


@_register(mutates_CFG=True, analysis_only=False)
class KernelLowering(lowering):  # type: ignore[misc]
    """Lowering to machine code without reference counts, where that is possible."""

    _name = "stoker_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower to a library of its own kind."""
        state.library = Uncounted(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.library.describe(state)
        done: bool = super().run_pass(state)
        return done


class _Compiler(compiler.CompilerBase):
    lowering: Any

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, except the lowering."""
        default: Any = compiler.DefaultPassBuilder
        passes: Any = PassManager("nopython")  # type: ignore[no-untyped-call]
        for step, what in default.define_nopython_pipeline(self.state).passes:
            passes.add_pass(self.lowering if step is lowering else step, what)
        passes.finalize()
        return [passes]


class BitcodeCompiler(_Compiler):
    """numba's compiler, which lowers to bitcode."""

    lowering = BitcodeLowering


class KernelCompiler(_Compiler):
    """numba's compiler; its code does not count references where that is possible."""

    lowering = KernelLowering


class StoredLibrary(library):  # type: ignore[misc]
    """Machine code from the cache; its bitcode is read only if a caller copies it."""

    _shared_module: Any

    @classmethod
    def load(cls, generator: Any, name: str, code: bytes, bitcode: bytes, names: Any) -> Any:
        """Hand machine code to the engine.

        Args:
            generator: numba's code generator.
            name: of the library.
            code: an object file.
            bitcode: the same, for callers.
            names: what it defines.
        """
        made = cls(generator, name)
        made.enable_object_caching()
        made._set_compiled_object(code)
        made._bitcode = bitcode
        made._finalize_final_module()
        generator._engine._defined_symbols.update(names)
        return made

    def _get_module_for_linking(self) -> Any:
        module: Any = self._shared_module
        if module is None:
            module = self._shared_module = llvm.parse_bitcode(self._bitcode)
        return module


class _Loader:
    """numba's code generator; it loads a library as `StoredLibrary`."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def unserialize_library(self, stored: Any) -> Any:
        name, _, data = stored
        return StoredLibrary.load(self._generator, name, *data)


class _CodeEntries(Entries):
    def reduce(self, cres: Any) -> Any:
        """Return what is stored: numba's, and which names the code defines."""
        (name, kind, data), *rest = super().reduce(cres)
        module = cres.library._get_module_for_linking()
        items = [*module.functions, *module.global_variables]
        names = [item.name for item in items if not item.is_declaration]
        return (name, kind, (*data, names)), *rest

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        loader = _Loader(target_context.codegen())
        target = target_context.subtarget(_internal_codegen=loader)
        return super().rebuild(target, payload)  # type: ignore[no-untyped-call]


class CodeCache(CheckedCache):
    """numba's cache of functions, whose entries are machine code that loads fast."""

    _impl_class = _CodeEntries

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored code of a signature, or None."""
        fill_for_users()
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]


class KernelCache(CodeCache):
    """The cache of kernels. The code of Stoker's own calls numba's runtime, and needs no tables."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored code of a signature, or None."""
        if not is_ours(self._py_func):
            return super().load_overload(sig, target_context)
        runtime.initialize(target_context)
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


class _FunctionEntries(_CodeEntries):
    def check_cachable(self, cres: Any) -> bool:
        """Return whether code may be stored: not if it has the addresses of large arrays."""
        return not cres.library.has_dynamic_globals


class FunctionCodeCache(CodeCache):
    """The cache of other functions than kernels; code with large arrays is not stored."""

    _impl_class = _FunctionEntries


class _BitcodeEntries(Entries):
    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return super().rebuild(_context(target_context), payload)  # type: ignore[no-untyped-call]


class BitcodeCache(CheckedCache):
    """numba's cache of functions, whose entries are bitcode."""

    _impl_class = _BitcodeEntries


def _without_value(given: Any) -> Any:
    is_number = isinstance(given, types.IntegerLiteral | types.BooleanLiteral)
    return _type_of(given) if is_number else given


class _Shortened(StoredDispatcher):
    """A dispatcher that compiles with shortcuts."""

    around = staticmethod(shortcuts)


class KernelDispatcher(_Shortened):
    """The dispatcher of a kernel that Python, or a program through its address, may call."""

    compiler_class = KernelCompiler
    cache_class = KernelCache


SHARED: Final = {"linkonce", "linkonce_odr", "weak_odr"}
"""Linkages that numba gives the code of callees."""


class OwnNames(library):  # type: ignore[misc]
    """Code whose callees, parallel loops among them, are private to it.

    numba names them by counters of the process. Code that two processes have stored may have
    different callees of one name, and the JIT linker takes the first one that it has seen.
    """

    def _optimize_final_module(self) -> None:
        """Make callees private, then optimize."""
        for one in list(self._final_module.functions):
            if not one.is_declaration and one.linkage.name in SHARED:
                one.linkage, one.name = "internal", f"{one.name}.{self.name}"
        super()._optimize_final_module()


class FunctionCompiler(compiler.CompilerBase):
    """numba's compiler, which keeps callees private."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes."""
        made = OwnNames(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        made.enable_object_caching()
        self.state.library = made
        default: Any = compiler.DefaultPassBuilder
        return [default.define_nopython_pipeline(self.state)]


class FunctionDispatcher(_Shortened):
    """The dispatcher of another function than a kernel: numba's own passes, with any options."""

    compiler_class = FunctionCompiler
    cache_class = FunctionCodeCache


class Callee(_Shortened):
    """The dispatcher of a kernel that only kernels call."""

    compiler_class = BitcodeCompiler
    cache_class = BitcodeCache
    more_options = {"no_cpython_wrapper": True}  # noqa: RUF012

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Resolve a call; constants of one type share a form, except in callees with `for` loops.

        Such a loop gets faster code if the constant is known when it is optimized: it may say how
        often the loop runs.
        """
        if not has_for_loops(self.py_func):
            args = [_without_value(given) for given in args]
            kws = {name: _without_value(given) for name, given in kws.items()}
        return super().get_call_template(args, kws)

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: there is no machine code to run.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self.__qualname__} has no machine code: call compiled(kernel)")
