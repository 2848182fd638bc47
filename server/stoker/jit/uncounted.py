"""Kernels without reference counts.

numba counts references to arrays. Wherever a kernel passes an array to a function, takes a slice or
gives an array another name, it calls NRT_incref and NRT_decref, which are atomic and not copied
into their callers. In a kernel that allocates nothing and returns no array they have no effect: its
caller holds all arrays until it returns, so no count reaches zero. They were a fifth of the time
of small pipelines.

The functions of an `Uncounted` library call two stand-ins instead. Once all callees are linked, it
is known whether the code allocates: the stand-ins do nothing, or call numba's functions. LLVM
copies them into their callers first of all, so they cost nothing. Only the wrapper that Python
calls keeps numba's functions: it converts the arguments and does hold them. A callee that returns
arrays leaves its stand-ins open, for its callers to define.

A library counts if its function returns an array, or has a value that could store one (such as a
list), or calls anything else of numba's runtime or a callee that counts. Relies on numba's inner
interfaces of code libraries and data models, which `tests/jit/test_uncounted.py` holds. Importing
this module imports numba.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable
from typing import Any, Final

import llvmlite.binding as untyped_llvm
from llvmlite import ir as untyped_ir
from numba.core import codegen, types
from numba.core.runtime import nrtdynmod
from numba.core.runtime.nrt import rtsys as untyped_runtime

llvm: Any = untyped_llvm
ir: Any = untyped_ir
runtime: Any = untyped_runtime
library: Any = codegen.JITCodeLibrary
_count_type: Any = nrtdynmod.incref_decref_ty
COUNTS: Final = ("NRT_incref", "NRT_decref")
RUNTIME: Final = "NRT_"
"""Begins the names of the functions of numba's runtime."""
WRAPPER: Final = "_ZN7cpython"
"""Begins the names of the wrappers that Python calls."""
STAND_IN: Final = "stoker."
PRIVATE: Final = ".private"
"""Ends the names of functions that a library has for itself."""
_ONLY_HOLD: Final = (
    types.Array, types.BaseTuple, types.ArrayIterator, types.ArrayCTypes, types.BoundFunction,
)  # fmt: skip
"""Types with references that no code can change."""


class Uncounted(library):  # type: ignore[misc]
    """The code of a kernel, without reference counts where that is possible.

    Attributes:
        only_holds: whether no type of its values can store references.
        returns_references: whether it returns an array.
        leaves_open: whether a library that returns arrays leaves the decision to its callers.
        is_dropped: whether its code counts nothing.
    """

    only_holds = False
    returns_references = True
    leaves_open = False
    is_dropped = False
    _needs_runtime = False

    def describe(self, state: Any) -> None:
        """Take from the compiler's state what the types of the function allow."""
        models = state.targetctx.data_model_manager
        found = [one for one in state.typemap.values() if models[one].contains_nrt_meminfo()]
        self.only_holds = all(isinstance(one, _ONLY_HOLD) for one in found)
        self.returns_references = models[state.return_type].contains_nrt_meminfo()

    def add_llvm_module(self, module: Any) -> None:
        """Add code; unless it is the wrapper, it calls the stand-ins from now on."""
        is_wrapper = any(one.name.startswith(WRAPPER) for one in module.functions)
        super().add_llvm_module(module)
        if is_wrapper:
            return
        for one in list(self._final_module.functions):
            if one.name in COUNTS:
                one.name = STAND_IN + one.name
            elif one.name.startswith(RUNTIME):
                self._needs_runtime = True

    def _optimize_final_module(self) -> None:
        """Define the stand-ins, now that all callees are linked, then optimize."""
        self._decide()
        self._optimize()

    def _optimize(self) -> None:
        """Run all passes. Those that numba runs before them only make counts easy to find."""
        if not self.is_dropped:
            super()._optimize_final_module()
            return
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)

    def _decide(self) -> None:
        callees = [
            list(linked._get_module_for_linking().functions)
            for linked in self._linking_libraries
            if linked is not runtime.library
        ]
        counts = not self.only_holds or self._needs_runtime or any(map(_counts, callees))
        if counts or not (self.returns_references and self.leaves_open):
            self.is_dropped = not counts and not self.returns_references
            self._define(_stand_ins(does_nothing=self.is_dropped))
            open_ones = itertools.chain(*(one for one in callees if _names(one, STAND_IN)))
            self._take_over({one.name for one in open_ones if not one.is_declaration})

    def _take_over(self, names: Collection[str]) -> None:
        """Make functions of open callees private to this library; elsewhere they may count.

        LLVM links only those that something still calls after it has copied functions into callers.

        They get other names too: the JIT linker takes the first function of a name that it has
        seen, though it was private to its library, and optimized for calls from there.
        """
        for one in list(self._final_module.functions):
            if one.name in names:
                one.linkage, one.name = "internal", one.name + PRIVATE

    def _define(self, stand_ins: str) -> None:
        used = _names(self._final_module.functions, STAND_IN)
        if used:
            self._final_module.link_in(llvm.parse_assembly(stand_ins))
        for name in used:
            self._final_module.get_function(name).linkage = "internal"


def _names(functions: Iterable[Any], prefix: str) -> list[str]:
    return [one.name for one in functions if one.name.startswith(prefix)]


def _counts(functions: Iterable[Any]) -> bool:
    """Return whether code uses numba's runtime."""
    return bool(_names(functions, RUNTIME))


@functools.cache
def _stand_ins(*, does_nothing: bool) -> str:
    """Return the code of the stand-ins, which do nothing or call numba's functions."""
    module = ir.Module("stoker.counts")
    for name in COUNTS:
        function = ir.Function(module, _count_type, STAND_IN + name)
        function.attributes.add("alwaysinline")
        block = ir.IRBuilder(function.append_basic_block())
        if not does_nothing:
            block.call(ir.Function(module, _count_type, name), function.args)
        block.ret_void()
    return str(module)
