"""How numba compiles kernels: those that Python calls, and those that only kernels call.

numba makes three things of every function: an optimized module, machine code, and a wrapper that
Python calls. A kernel that only other kernels call needs none of them: its code is copied into its
callers, optimized there, and becomes machine code only there. So a `Callee` stops at bitcode, after
one cheap pass. The caller's passes see its code as if both were in one file.

A kernel computes the same whether Python or another kernel calls it. Importing this module imports
numba; only `stoker.jit.diskcache` does. It relies on numba's internal interfaces of code libraries
and caches, which may change: `tests/rng/test_callees.py` has a test for each.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from numba.core import caching, codegen, compiler, typed_passes
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.registry import CPUDispatcher

library: Any = codegen.JITCodeLibrary
generator: Any = codegen.JITCPUCodegen
lowering: Any = typed_passes.NativeLowering
base_dispatcher: Any = CPUDispatcher
_register: Any = register_pass
_compiling: Any = global_compiler_lock


class BitcodeLibrary(library):  # type: ignore[misc]
    """The code of one kernel, for its callers to copy; never machine code."""

    def _optimize_final_module(self) -> None:
        """Run numba's first pass: it rotates loops, and does not inline or vectorize yet."""
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
        done: bool = super().run_pass(state)
        return done


class BitcodeCompiler(compiler.CompilerBase):
    """numba's compiler, which lowers to bitcode."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, except the lowering."""
        default: Any = compiler.DefaultPassBuilder
        passes: Any = PassManager("nopython")  # type: ignore[no-untyped-call]
        for step, what in default.define_nopython_pipeline(self.state).passes:
            passes.add_pass(BitcodeLowering if step is lowering else step, what)
        passes.finalize()
        return [passes]


class _BitcodeEntries(caching.CompileResultCacheImpl):
    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return super().rebuild(_context(target_context), payload)  # type: ignore[no-untyped-call]


class BitcodeCache(caching.FunctionCache):
    """numba's cache of functions, whose entries are bitcode."""

    _impl_class = _BitcodeEntries


class _Shared(base_dispatcher):  # type: ignore[misc]
    """A dispatcher whose cache is a `stoker.jit.diskcache.SharedCache`, set by its maker."""

    def compile(self, sig: Any) -> Any:
        """Load or compile code, then release the cache's lock, also after an error."""
        with _compiling:
            try:
                return super().compile(sig)
            finally:
                self._cache.release()


class Kernel(_Shared):
    """The dispatcher of a kernel that Python, or a program through its address, may call."""

    def __init__(self, fn: Any, options: dict[str, Any]) -> None:
        """Take a function and numba's options."""
        super().__init__(fn, targetoptions={**options, "nopython": True})
        self._cache = caching.FunctionCache(fn)  # type: ignore[no-untyped-call]


class Callee(_Shared):
    """The dispatcher of a kernel that only kernels call."""

    def __init__(self, fn: Any, options: dict[str, Any]) -> None:
        """Take a function and numba's options."""
        options = {**options, "nopython": True, "no_cpython_wrapper": True}
        super().__init__(fn, targetoptions=options, pipeline_class=BitcodeCompiler)
        self._cache = BitcodeCache(fn)  # type: ignore[no-untyped-call]

    def __call__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: there is no machine code to run.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self.__qualname__} has no machine code: call compiled(kernel)")
