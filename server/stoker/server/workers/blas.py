"""Whether there is a BLAS for numba: answered without importing half of SciPy.

When numba is first asked for machine code it imports `scipy.linalg.cython_blas`, only to learn
whether that is there, and with it two hundred modules: a third of the time that the template needs.
Code that multiplies matrices imports it for itself, when it is compiled and when it is loaded.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

BLAS = "scipy.linalg.cython_blas"


@contextlib.contextmanager
def taken_for_granted() -> Iterator[None]:
    """Meanwhile importing the BLAS of an installed SciPy succeeds at once and loads nothing.

    The module that is imported instead is empty. Where there is no SciPy, or the module is loaded
    already, this does nothing.
    """
    if BLAS in sys.modules or importlib.util.find_spec("scipy") is None:
        yield
        return
    sys.modules[BLAS] = ModuleType(BLAS)
    try:
        yield
    finally:
        del sys.modules[BLAS]
