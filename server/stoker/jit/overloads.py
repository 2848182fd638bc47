"""Functions of numba's own that a kernel calls, at less cost.

Numba has thousands of small functions in Python: how it fills an array, computes a slice or words
an error. While it compiles a kernel it compiles those that the kernel needs, each as far as machine
code, with a wrapper for callers in C. Yet only the kernel calls them, and their code is copied into
it: neither is ever run. `no_wrapper` replaces numba's method that adds the wrapper. The library of
such a function then stops before machine code, unless an address in it is requested; the code
that callers copy is the same. Its environment of Python objects has a place as before. The wrappers
that numba puts between a parallel loop and the function around it stop there too
(`create_library`), and are optimized only where they are copied.

If an array is assigned to a slice of another shape, numba's error names both shapes. The code that
writes this text at run time is the largest part of many kernels: it took half of the time of their
compile. Here the error has numba's text for other targets than CPUs, which is a constant. The plain
form of a kernel, and NumPy, name the shapes.

Relies on numba's inner interfaces of lowering, of code libraries and of assignments, which
`tests/jit/test_overloads.py` holds. Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding as untyped_llvm
from numba.core import codegen, types
from numba.core import typing as untyped_typing
from numba.core.lowering import BaseLower
from numba.np import arrayobj as untyped_arrayobj

llvm: Any = untyped_llvm
typing: Any = untyped_typing
library: Any = codegen.JITCodeLibrary
lower: Any = BaseLower
_other_shape: Any = getattr(untyped_arrayobj, "raise_with_shape_context", None)
OTHER_SHAPE: Final = "cannot assign slice from input of different size"
UNRESOLVED: Final = ".numba.unresolved$"
"""Begins the names of functions that are called before they are made, as recursion does."""
GLUE: Final = ("parallelgufuncwrapper", "<numba.np.ufunc.wrappers._GufuncWrapper object")
"""Begin the names of libraries between a parallel loop and the function around it."""
maker: Any = codegen.CPUCodegen
_numbas_library: Any = getattr(maker, "create_library", None)
_numbas_wrapper: Any = getattr(lower, "create_cfunc_wrapper", None)


class CopiedLibrary(library):  # type: ignore[misc]
    """The code of a function that only compiled code calls; machine code only if it is asked for.

    Attributes:
        environment: the name of the variable with its Python objects, if it has one.
        context: numba's target.
    """

    environment: str | None = None
    context: Any = None
    _is_apart = False

    def _optimize_final_module(self) -> None:
        """Leave code around parallel loops as it is: it is optimized where it is copied."""
        if self.environment is not None:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        """Make no machine code, except for a function that is called before it is made."""
        names = [one.name for one in self._final_module.global_variables]
        if any(name.startswith(UNRESOLVED) for name in names):
            super()._finalize_final_module()
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        if self.environment is not None:
            place = self._codegen._create_empty_module(self.environment)
            self.context.declare_env_global(place, self.environment)
            self._codegen._add_module(llvm.parse_assembly(str(place)))
        self._is_apart = self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function; 0: it is not in this library."""
        self._ensure_finalized()
        defined = {one.name for one in self._final_module.functions if not one.is_declaration}
        if self._is_apart and name in defined:
            self._is_apart = False
            super()._finalize_final_module()
        found: int = super().get_pointer_to_function(name)
        return found


def no_wrapper(self: Any) -> None:
    """Add a wrapper for C to a function that has one for Python; else make a `CopiedLibrary`."""
    flags = self.flags
    if flags is None or not flags.no_cpython_wrapper or flags.no_compile:
        _numbas_wrapper(self)
    elif type(self.library) is library:
        self.library.__class__ = CopiedLibrary
        self.library.environment = self.context.get_env_name(self.fndesc)
        self.library.context = self.context


def create_library(self: Any, name: str, **options: Any) -> Any:
    """Make a library; a `CopiedLibrary` for code between a parallel loop and what is around it."""
    made = _numbas_library(self, name, **options)
    if type(made) is library and name.startswith(GLUE):
        made.__class__ = CopiedLibrary
    return made


def signature_of(fn: Any, args: Any) -> Any:
    """Return the signature of a call of numba's that raises `OTHER_SHAPE`; None: another call."""
    if _other_shape is None or fn.typing_key is not _other_shape:
        return None
    return typing.signature(types.none, *args)


def lowering_of(fn: Any) -> Any:
    """Return what emits the code of such a call; None: numba does."""
    known = type(fn) is types.Function and fn.typing_key is _other_shape
    return _raise_other_shape if known and _other_shape is not None else None


def _raise_other_shape(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    context.call_conv.return_user_exc(builder, ValueError, (OTHER_SHAPE,))
    return context.get_dummy_value()
