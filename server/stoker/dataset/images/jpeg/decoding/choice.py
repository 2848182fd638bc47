"""The choice between Stoker's own decoder and libjpeg-turbo for gridded JPEGs.

The pixels are the same. The environment variable STOKER_JPEG chooses for a process and its
children: `stoker` or `libjpeg`. With NUMBA_DISABLE_JIT=1 it is always libjpeg-turbo, because the
decoder's plain forms are for tests only.
"""

import functools
import os
from typing import Final

from stoker.jit.compiling import is_disabled

VARIABLE: Final = "STOKER_JPEG"
OWN: Final = "stoker"


@functools.cache
def is_own_decoder_chosen() -> bool:
    """Return whether this process uses Stoker's own decoder; read once from the environment."""
    return os.environ.get(VARIABLE) == OWN and not is_disabled()
