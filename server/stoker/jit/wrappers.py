"""The wrappers of parallel loops, without machine code of their own.

numba puts two wrappers between a parallel loop and the function around it, and makes machine code
of both, though their code is copied into the function. The library of such a wrapper
(`CopiedLibrary`) stops before machine code.

It relies on private interfaces of numba's code libraries, which `tests/jit/test_wrappers.py` tests.
Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, Final

from numba.core import codegen

library: Any = codegen.JITCodeLibrary
maker: Any = codegen.CPUCodegen
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
