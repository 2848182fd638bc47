"""The choice between Stoker's own decoder and libjpeg-turbo for gridded JPEGs, in one process.

The pixels are the same. A process that the daemon starts is told its setting `daemon.jpeg`; every
other process uses libjpeg-turbo. With `auto`, libjpeg-turbo decodes until the process is told that
the own decoder is compiled. Files without checksums stay with libjpeg-turbo then, because each
decoder accepts other ones of those that are damaged. With NUMBA_DISABLE_JIT=1 it is always
libjpeg-turbo, because the decoder's plain forms are for tests only.
"""

from dataclasses import dataclass
from typing import Final

from stoker.dataset.images.jpeg.grid import WITH_CHECKSUMS, WITHOUT_CHECKSUMS
from stoker.jit.compiling import is_disabled

LIBJPEG, OWN, AUTO = "libjpeg", "stoker", "auto"
_NEVER: Final = 256
"""Greater than all versions of grids, which are bytes."""


@dataclass
class _Choice:
    """The choice of this process.

    Attributes:
        least: the own decoder decodes files whose grid has this version or a later one.
        waits: whether it will decode files with checksums once it is compiled.
        met: whether it would have decoded a file, had it not waited.
    """

    least: int = _NEVER
    waits: bool = False
    met: bool = False


_now: Final = _Choice()


def choose_decoder(name: str) -> None:
    """Use a decoder from now on in this process: `libjpeg`, `stoker` or `auto`."""
    _now.least = WITHOUT_CHECKSUMS if name == OWN else _NEVER
    _now.waits, _now.met = name == AUTO, False


def change_to_own_decoder() -> None:
    """End the waiting of `auto`: the own decoder is compiled."""
    _now.least, _now.waits = WITH_CHECKSUMS, False


def is_own_decoder_chosen(grid: memoryview) -> bool:
    """Return whether this process decodes a file with that grid by Stoker's own decoder."""
    version = grid[0] if grid else 0
    if version >= _now.least:
        return not is_disabled()
    _now.met = _now.met or (_now.waits and version >= WITH_CHECKSUMS)
    return False


def is_own_decoder_wanted() -> bool:
    """Return whether `auto` waits for the own decoder, and has met a file for it."""
    return _now.waits and _now.met and not is_disabled()


def needs_own_decoder() -> bool:
    """Return whether pipelines for gridded files cannot do without it: it decodes all of them."""
    return _now.least == WITHOUT_CHECKSUMS and not is_disabled()
