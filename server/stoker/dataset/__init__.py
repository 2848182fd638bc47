"""Datasets: packing them, reading them in O(1), decoding their pictures.

- `open_dataset`, `Dataset`: reading (workers, user code); imports no pyarrow, numba or torch.
- `stoker.dataset.build.write_dataset`: write rows as a dataset.
- `stoker.dataset.pack.pack`: pack folders of files, in parallel and resumably.
- `stoker.dataset.verify.verify`: decode every sample and compare every hash.

docs/contracts/dataset.md and docs/contracts/decoder.md are the specifications.
"""

from stoker.dataset.reader import Dataset, open_dataset
from stoker.dataset.schema import Field, Schema

__all__ = ["Dataset", "Field", "Schema", "open_dataset"]
