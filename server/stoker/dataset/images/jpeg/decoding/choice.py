"""The choice between Stoker's own decoder and libjpeg-turbo for gridded JPEGs, in one process.

The pixels are the same. A process that the daemon starts gets its setting `daemon.jpeg`; every
other process uses libjpeg-turbo. With `auto`, libjpeg-turbo decodes until the daemon reports that
the own decoder is compiled. Files without checksums stay with libjpeg-turbo then: of damaged files,
each decoder accepts others. With NUMBA_DISABLE_JIT=1 it is always libjpeg-turbo, because the
decoder's plain forms are for tests only.

The decoder has two forms: most pipelines need the exact one alone, which is compiled alone. The
reduced one decodes at a fraction, and is compiled with the exact one where `decode="scaled"` asks
for it.
"""

from dataclasses import dataclass
from typing import Final

from stoker.dataset.images.jpeg.grid import WITH_CHECKSUMS, WITHOUT_CHECKSUMS
from stoker.jit.compiling import is_disabled

LIBJPEG, OWN, AUTO = "libjpeg", "stoker", "auto"
NONE, EXACT, REDUCED = range(3)
"""Forms of the own decoder; each includes those before it."""


@dataclass
class _Choice:
    """The choice of this process.

    Attributes:
        least: the own decoder decodes files whose grid has this version or a later one.
        form: the form that it has.
        waits: whether it gets the others once they are compiled.
        met: the form that would have decoded a file, had it not waited.
    """

    least: int = WITH_CHECKSUMS
    form: int = NONE
    waits: bool = False
    met: int = NONE


_now: Final = _Choice()


def choose_decoder(name: str) -> None:
    """Use a decoder from now on in this process: `libjpeg`, `stoker` or `auto`."""
    _now.least = WITHOUT_CHECKSUMS if name == OWN else WITH_CHECKSUMS
    _now.form = REDUCED if name == OWN else NONE
    _now.waits, _now.met = name == AUTO, NONE


def change_to_own_decoder(form: int) -> None:
    """End the waiting of `auto` for a form of the own decoder: it is compiled."""
    _now.form = max(_now.form, form)


def is_own_decoder_chosen(grid: memoryview, form: int = EXACT) -> bool:
    """Return whether this process decodes a file with that grid by Stoker's own decoder.

    Args:
        grid: the side column's bytes.
        form: EXACT, or REDUCED if it is decoded at a fraction.
    """
    version = grid[0] if grid else 0
    if version < _now.least:
        return False
    if form <= _now.form:
        return not is_disabled()
    if _now.waits:
        _now.met = max(_now.met, form)
    return False


def wanted_form() -> int:
    """Return the form that `auto` waits for, and has met a file for; NONE if it waits for none."""
    waits = _now.waits and _now.met > _now.form and not is_disabled()
    return _now.met if waits else NONE


def needs_own_decoder() -> bool:
    """Return whether pipelines for gridded files cannot do without it: it decodes all of them."""
    return _now.least == WITHOUT_CHECKSUMS and not is_disabled()
