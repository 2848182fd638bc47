"""The releases of numba that Stoker's replacements for its parts are used with.

`stoker.jit.dispatchers` and what it imports replace private parts of numba, so that kernels compile
faster and their code counts no references. Another release may have other parts. So the
replacements are used only with the releases between `FIRST` and `BEFORE`, which the tests of
kernels ran with; `pyproject.toml` has the same bounds. With any other release numba compiles
kernels as it is (`stoker.jit.stored`): the same bytes, later. No other module compares versions.
"""

import functools
import importlib
import logging
import re
from typing import Final

_log = logging.getLogger(__name__)
FIRST: Final = (0, 63, 1)
BEFORE: Final = (0, 69)
SUPPORTED: Final = "numba>=0.63.1,<0.69"
"""The same bounds, as pip writes them."""


@functools.cache
def is_supported() -> bool:
    """Return whether the installed numba is between the bounds; else log one warning a process."""
    version: str = importlib.import_module("numba").__version__
    if supports(version):
        return True
    _log.warning(
        "numba %s was not tested with this Stoker: kernels take about twice as long to compile, and"
        " compute the same bytes; install %s",
        version,
        SUPPORTED,
    )
    return False


def supports(version: str) -> bool:
    """Return whether a release of numba is between the bounds."""
    return FIRST <= _numbers(version) < BEFORE


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (0, 69, 0) of "0.69.0rc1"."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found is not None else ()
