"""Tells numba if there is a BLAS, without importing half of SciPy.

The first time that numba compiles something, it imports `scipy.linalg.cython_blas` only to find out
if it exists. This imports two hundred modules, and takes a third of the template's start. Code that
multiplies matrices imports it itself, when it is compiled and when it is loaded.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

BLAS = "scipy.linalg.cython_blas"


@contextlib.contextmanager
def empty_blas_module() -> Iterator[None]:
    """For a `with` block: importing the BLAS of an installed SciPy imports an empty module instead.

    Without SciPy, or if the module is already loaded, this does nothing.
    """
    if BLAS in sys.modules or importlib.util.find_spec("scipy") is None:
        yield
        return
    sys.modules[BLAS] = ModuleType(BLAS)
    try:
        yield
    finally:
        del sys.modules[BLAS]
