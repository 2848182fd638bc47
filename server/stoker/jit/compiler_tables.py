"""numba's tables of what it can compile, filled without importing half of SciPy.

They take a quarter of a second. A process fills them before it first compiles, and before it loads
stored code of users, which may need what comes with them. Stored code of Stoker's own kernels does
not (`stoker.jit.dispatchers`).

When they are filled, numba imports `scipy.linalg.cython_blas` only to find out if it exists. This
imports two hundred modules, and takes as long again. Code that multiplies matrices imports it
itself, when it is compiled and when it is loaded.
"""

import contextlib
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

BLAS = "scipy.linalg.cython_blas"
_for_users: list[bool] = []


@functools.cache
def fill_tables() -> None:
    """Fill numba's tables, once in a process and its children; under numba's compiler lock."""
    target = importlib.import_module("numba.core.registry").cpu_target
    with empty_blas_module():
        target.typing_context.refresh()
        target.target_context.refresh()


def fill_for_users() -> None:
    """Fill the tables for code of users."""
    _for_users[:] = [True]
    fill_tables()


def are_for_users() -> bool:
    """Return whether this process filled the tables for code of users."""
    return bool(_for_users)


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
