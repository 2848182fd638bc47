"""Writing a dataset from Python objects: `stoker.dataset.write`.

    from stoker.dataset.format import schema, write

    fields = [schema.image(), schema.boxes(fields={"label": "int64"})]
    write("photos", fields, samples)      # samples[i] == {"image": ..., "boxes": {...}}

Runs in the caller's process, one row at a time, in bounded memory.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from stoker.dataset.format.cells import Value
from stoker.dataset.format.manifest import Manifest
from stoker.dataset.format.schema import Field, Schema
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.protocol.errors import UsageError

Row = Mapping[str, Value]


class Indexable(Protocol):
    """Rows by number, as a `torch.utils.data.Dataset` has them."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def __getitem__(self, index: int, /) -> Row:
        """Return a row."""
        ...


def write(
    path: str | os.PathLike[str],
    fields: Sequence[Field],
    rows: Iterable[Row] | Indexable,
    *,
    overwrite: bool = False,
    cut: Cut | None = None,
) -> Manifest:
    """Write rows of Python objects as a dataset.

    Args:
        path: folder of the dataset; made if it is missing.
        fields: made by `stoker.dataset.schema`: image, mask, boxes, keypoints, label, scalar,
            array and blob.
        rows: anything that gives rows one after the other, or has a length and rows by number. A
            row is a dict with a value for every field: image and mask the bytes of a file, or
            pixels (H, W, 3) and (H, W) uint8; boxes and keypoints as `format.items` says;
            blob bytes; all others numbers or arrays.
        overwrite: replace a dataset that is there, once the new one is whole.
        cut: where rows are cut into files.

    Returns:
        The manifest of what was written.

    Raises:
        UsageError: the fields cannot be, a row has other fields, or there is a dataset already.
        DatasetError: a value does not fit its field (the message names row and field), or there is
            no row.
        ResourceError: the disk is full.
    """
    return write_dataset(path, Schema(tuple(fields)), _in_order(rows), cut=cut, overwrite=overwrite)


def _in_order(rows: Any) -> Iterator[Row]:
    if hasattr(rows, "__len__") and hasattr(rows, "__getitem__") and not isinstance(rows, Mapping):
        return (rows[index] for index in range(len(rows)))
    if hasattr(rows, "__iter__") and not isinstance(rows, Mapping):
        return iter(rows)
    raise UsageError(f"expected rows one after the other, or by number, got {type(rows).__name__}")
