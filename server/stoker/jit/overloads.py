"""Two parts of numba that cost more to compile than the functions that use them.

- **Parallel loops.** numba puts two wrappers between a parallel loop and the function around it,
  and makes machine code of both, though their code is copied into the function. The library of
  such a wrapper (`CopiedLibrary`) stops before machine code.
- **Assignments to a slice.** If the shapes differ, numba's error names both. The code that writes
  this text at run time is larger than most kernels. Here the error has numba's text for other
  targets than CPUs, which is a constant. The plain form of a kernel, and NumPy, name the shapes.

It relies on private interfaces of numba's code libraries and assignments, which
`tests/jit/test_overloads.py` tests. Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, Final

from numba.core import codegen, types
from numba.core import typing as untyped_typing
from numba.np import arrayobj as untyped_arrayobj

typing: Any = untyped_typing
library: Any = codegen.JITCodeLibrary
maker: Any = codegen.CPUCodegen
_other_shape: Any = untyped_arrayobj.raise_with_shape_context
OTHER_SHAPE: Final = "cannot assign slice from input of different size"
WRAPPERS: Final = ("parallelgufuncwrapper", "<numba.np.ufunc.wrappers._GufuncWrapper object")
"""The names of the libraries of wrappers begin with these."""
_numbas_library: Any = maker.create_library


class CopiedLibrary(library):  # type: ignore[misc]
    """The code of a function that only compiled code calls; machine code only if it is asked for.

    It is not optimized here, but where it is copied.
    """

    _is_apart = False

    def _optimize_final_module(self) -> None:
        """Leave the code as it is."""

    def _finalize_final_module(self) -> None:
        """Make no machine code."""
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
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


def create_library(self: Any, name: str, **options: Any) -> Any:
    """Make a library: a `CopiedLibrary` for a wrapper of a parallel loop."""
    if self._library_class is library and name.startswith(WRAPPERS):
        return CopiedLibrary(self, name, **options)
    return _numbas_library(self, name, **options)


def signature_of(fn: Any, args: Any) -> Any:
    """Return the signature of a call of numba's that raises `OTHER_SHAPE`; None: another call."""
    return typing.signature(types.none, *args) if fn.typing_key is _other_shape else None


def lowering_of(fn: Any) -> Any:
    """Return the function that emits the code of such a call; None: numba has it."""
    known = type(fn) is types.Function and fn.typing_key is _other_shape
    return _raise_other_shape if known else None


def _raise_other_shape(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    context.call_conv.return_user_exc(builder, ValueError, (OTHER_SHAPE,))
    return context.get_dummy_value()
