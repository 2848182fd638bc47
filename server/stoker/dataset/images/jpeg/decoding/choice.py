"""The choice between Stoker's own decoder and libjpeg-turbo for gridded JPEGs.

The pixels are the same. A process that the daemon starts is told its setting `daemon.jpeg`; every
other process uses libjpeg-turbo. With NUMBA_DISABLE_JIT=1 it is always libjpeg-turbo, because the
decoder's plain forms are for tests only.
"""

from typing import Final

from stoker.jit.compiling import is_disabled

LIBJPEG, OWN = "libjpeg", "stoker"
_chosen: Final = [LIBJPEG]


def choose_decoder(name: str) -> None:
    """Use a decoder from now on in this process: `libjpeg` or `stoker`."""
    _chosen[0] = name


def is_own_decoder_chosen() -> bool:
    """Return whether this process uses Stoker's own decoder."""
    return _chosen[0] == OWN and not is_disabled()
