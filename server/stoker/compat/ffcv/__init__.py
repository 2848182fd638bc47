"""FFCV scripts on Stoker: replace `ffcv` by `stoker.compat.ffcv` in the import lines.

It has `DatasetWriter`, fields, decoders, `Loader`, `OrderOption`, the common transforms, and the
contract for the user's own operations (`Operation`, `State`, `AllocationQuery`, `generate_code`).
It loads a Stoker dataset, a row's draws belong to (stream, seed, epoch, sample id), and no global
generator is read or written. Everything runs in the script's process: threads decode, and numba
compiles operations. docs/guides/coming-from-ffcv.md says what is supported and what differs.
"""

from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.writer import DatasetWriter

__all__ = ["DatasetWriter", "Loader", "OrderOption"]
