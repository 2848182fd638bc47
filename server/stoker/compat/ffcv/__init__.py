"""FFCV scripts on Stoker: replace `ffcv` by `stoker.compat.ffcv` in the import lines.

It has the writer, fields, decoders, `Loader`, `OrderOption`, the common transforms, and FFCV's
contract of operations. Only scripts import it. Everything runs in their process: threads decode,
numba compiles operations. It must not know a daemon, and no global generator is read or written.
docs/guides/coming-from-ffcv.md says what is supported and what differs.
"""

from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.writer import DatasetWriter

__all__ = ["DatasetWriter", "Loader", "OrderOption"]
