"""FFCV scripts on Stoker: replace `ffcv` by `stoker.compat.ffcv` in the import lines.

`DatasetWriter`, fields, decoders, `Loader`, `OrderOption`, the common transforms, and operations
of your own by FFCV's contract (`Operation`, `State`, `AllocationQuery`, `generate_code`). What is
loaded is a Stoker dataset, a row's draws belong to (stream, seed, epoch, sample id), and no global
generator is read or written. Everything runs in the process of the script: threads decode, and
operations are compiled by numba. What is there and what differs: docs/guides/coming-from-ffcv.md.
"""

from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.writer import DatasetWriter

__all__ = ["DatasetWriter", "Loader", "OrderOption"]
