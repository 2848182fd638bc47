"""Datasets: packing them, reading them in O(1), decoding their images and masks.

- `open_dataset`, `Dataset`: reading (workers, user code); imports no pyarrow, numba or torch.
- `write`: write rows of Python objects as a dataset; `schema` makes its fields; `split` splits it.
- `stoker.dataset.packing.pack.pack`: pack folders of files, in parallel and resumably.
- `stoker.dataset.verify.verify`: decode every sample and compare every hash.

docs/contracts/dataset.md and docs/contracts/decoder.md are the specifications.
"""

from stoker.dataset.dataset_opening import open_dataset
from stoker.dataset.format import schema
from stoker.dataset.format.fields import Field, Schema
from stoker.dataset.packing.splitting import split
from stoker.dataset.packing.write import write
from stoker.dataset.reading.dataset_interface import Dataset

__all__ = ["Dataset", "Field", "Schema", "open_dataset", "schema", "split", "write"]
