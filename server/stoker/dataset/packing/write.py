"""Writing a dataset from Python objects: `stoker.dataset.write`.

    from stoker.dataset import schema, write

    fields = [schema.image(), schema.boxes(fields={"label": "int64"})]
    write("photos", fields, samples)      # samples[i] == {"image": ..., "boxes": {...}}

Runs in the caller's process, one row at a time, in bounded memory.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import Field, Schema
from stoker.dataset.format.manifest import Manifest
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.protocol.errors import UsageError

RowValues = Mapping[str, Value]


class Indexable(Protocol):
    """Rows by number, as in a `torch.utils.data.Dataset`."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def __getitem__(self, index: int, /) -> RowValues:
        """Return a row."""
        ...


def write(
    path: str | os.PathLike[str],
    fields: Sequence[Field],
    rows: Iterable[RowValues] | Indexable,
    *,
    overwrite: bool = False,
    cut: Cut | None = None,
) -> Manifest:
    """Write rows of Python objects as a dataset.

    Args:
        path: folder of the dataset; created if it is missing.
        fields: made by `stoker.dataset.schema`: image, mask, boxes, keypoints, label, scalar,
            array and blob.
        rows: an iterable of rows, or an object with a length and rows by number. A row is a dict
            with a value for every field: for an image or mask the bytes of a file, or pixels (H, W,
            3) or (H, W) uint8; for boxes and keypoints see `format.box_conversion`; for a blob
            bytes; for all others numbers or arrays.
        overwrite: replace an existing dataset, once the new one is complete.
        cut: where rows are cut into files.

    Returns:
        The manifest of the new dataset.

    Raises:
        UsageError: the fields are invalid, a row has other fields, or there is already a dataset.
        DatasetError: a value does not fit its field (the message names row and field), or
            rows are missing.
        ResourceError: the disk is full.
    """
    return write_dataset(path, Schema(tuple(fields)), _in_order(rows), cut=cut, overwrite=overwrite)


def _in_order(rows: Any) -> Iterator[RowValues]:
    if hasattr(rows, "__len__") and hasattr(rows, "__getitem__") and not isinstance(rows, Mapping):
        return (rows[index] for index in range(len(rows)))
    if hasattr(rows, "__iter__") and not isinstance(rows, Mapping):
        return iter(rows)
    raise UsageError(f"expected an iterable of rows, or rows by number, got {type(rows).__name__}")
