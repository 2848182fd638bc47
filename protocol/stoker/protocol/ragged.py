"""Ragged values v1: boxes and keypoints, whose number differs from sample to sample.

The value of one sample is n **items**, each a record of 32-bit words: first the coordinates, then
the user's fields of the item, each starting at a word boundary. A batch holds the items of its rows
one row after the other, and `offsets`: row r has the items [offsets[r], offsets[r + 1]). n may be
0, for one row or for all. Kernels move whole records, so fields follow their coordinates through
every clip and filter. Specified with vectors in docs/contracts/ragged.md.

In a slot a ragged output is (rows, bound, words) uint32 and, under the name `<output>.count`,
(rows,) int64: how many of the `bound` records count. The words after those have no meaning.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stoker.protocol.errors import ProtocolError
from stoker.protocol.item_fields import COUNT, OFFSETS, WORD, WORD_BYTES, ItemField, item_words


def pack_items(fields: Sequence[ItemField], columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return items as records, (n, words) uint32.

    Args:
        fields: the fields of an item, in order.
        columns: for every field an array of its dtype, (n,), or (n, width) if it is wider.
    """
    count = len(columns[fields[0].name])
    packed = np.zeros((count, item_words(fields) * WORD_BYTES), np.uint8)
    end = 0
    for field in fields:
        array = columns[field.name]
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        raw = little.reshape(count, field.width).view(np.uint8)
        packed[:, end : end + raw.shape[1]] = raw
        end += field.words * WORD_BYTES
    return packed.view("<u4").astype(WORD, copy=False)


def unpack_items(fields: Sequence[ItemField], words: np.ndarray) -> dict[str, np.ndarray]:
    """Return copies of the fields of records (n, words) uint32: arrays (n,) or (n, width)."""
    raw = np.ascontiguousarray(words, "<u4").view(np.uint8)
    columns, end = {}, 0
    for field in fields:
        dtype = np.dtype(field.dtype)
        part = raw[:, end : end + field.width * dtype.itemsize].copy()
        array = part.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        columns[field.name] = array if field.width > 1 else array.reshape(len(words))
        end += field.words * WORD_BYTES
    return columns


def spread(
    name: str, fields: Sequence[ItemField], records: np.ndarray, counts: np.ndarray
) -> dict[str, np.ndarray]:
    """Return a ragged output as plain arrays: `<name>.offsets`, and one `<name>.<field>` each.

    Args:
        name: the output's name.
        fields: the fields of an item, in order.
        records: (rows, bound, words) uint32, as in the slot.
        counts: (rows,) int64, as in the slot.

    Raises:
        ProtocolError: the arrays do not match the fields, or a count is out of bounds.
    """
    rows, bound = len(counts), records.shape[1] if records.ndim == 3 else -1
    if records.shape != (rows, bound, item_words(fields)) or records.dtype != WORD:
        raise ProtocolError(
            f"output {name!r}: expected ({rows}, bound, {item_words(fields)}) {WORD}, got "
            f"{records.shape} {records.dtype}"
        )
    if rows and not 0 <= counts.min() <= counts.max() <= bound:
        raise ProtocolError(
            f"output {name!r}: expected 0 to {bound} items per row, got {counts.min()} to "
            f"{counts.max()}"
        )
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    items = records[np.arange(bound) < counts[:, None]]
    columns = unpack_items(fields, items)
    return {f"{name}.{OFFSETS}": offsets, **{f"{name}.{key}": columns[key] for key in columns}}


def flatten(
    arrays: Mapping[str, np.ndarray], ragged: Mapping[str, Sequence[ItemField]]
) -> dict[str, np.ndarray]:
    """Return a slot's outputs as plain arrays without unused records; see `spread`.

    Args:
        arrays: by name, as in the slot.
        ragged: name of each ragged output -> fields of its items.

    Raises:
        ProtocolError: a ragged output does not match its fields.
    """
    plain: dict[str, np.ndarray] = {}
    counts = {f"{name}.{COUNT}" for name in ragged}
    for name, array in arrays.items():
        if name in ragged:
            plain |= spread(name, ragged[name], array, arrays[f"{name}.{COUNT}"])
        elif name not in counts:
            plain[name] = array
    return plain


class Ragged:
    """Boxes or keypoints of a batch: `values` and `offsets`, and the fields of each item.

    `ragged[r]` is row r: a dict of its arrays by name. Arrays are NumPy arrays or torch tensors.

    Attributes:
        format: the meaning of the values: "xyxy" for boxes, "xy" for keypoints, in pixels, or
            another format that an op produced.
        values: coordinates of all items, (N, 4) or (N, 2) float32.
        offsets: (rows + 1,) int64; row r has the items [offsets[r], offsets[r + 1]).
        fields: name -> array (N,) or (N, width): the other fields of each item.
    """

    __slots__ = ("_bounds", "fields", "format", "offsets", "values")

    def __init__(self, format: str, values: Any, offsets: Any, fields: Mapping[str, Any]) -> None:  # noqa: A002 - what it is
        self.format = format
        self.values = values
        self.offsets = offsets
        self.fields = dict(fields)
        self._bounds: list[int] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return one row: its arrays by name, the coordinates under the name of their format.

        Raises:
            IndexError: there is no such row.
        """
        if self._bounds is None:  # once: reading offsets from a device would wait each time
            self._bounds = self.offsets.tolist()
        first, stop = self._bounds[:-1][row], self._bounds[1:][row]
        return {name: array[first:stop] for name, array in self._columns().items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows."""
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        shape = tuple(self.values.shape)
        more = "".join(f", {name}" for name in self.fields)
        return f"Ragged({len(self)} rows of {self.format} {shape}{more})"

    def to(self, device: Any, non_blocking: bool = False) -> "Ragged":
        """Return a copy whose tensors are on another device (torch only)."""
        return self._mapped(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def parts(self, name: str) -> dict[str, Any]:
        """Return the arrays of a digest, on the host: `<name>.count` and each `<name>.<field>`."""
        host = self._mapped(lambda array: array.cpu() if hasattr(array, "cpu") else array)
        counts = np.diff(np.asarray(host.offsets))
        return {
            f"{name}.{COUNT}": counts,
            **{f"{name}.{key}": np.asarray(array) for key, array in host._columns().items()},
        }

    def _columns(self) -> dict[str, Any]:
        return {self.format: self.values, **self.fields}

    def _mapped(self, change: Callable[[Any], Any]) -> "Ragged":
        fields = {name: change(array) for name, array in self.fields.items()}
        return Ragged(self.format, change(self.values), change(self.offsets), fields)


def gather(arrays: Mapping[str, Any], ragged: Mapping[str, Sequence[ItemField]]) -> dict[str, Any]:
    """Join the arrays that `spread` made into `Ragged` values; keep the others.

    Args:
        arrays: by name, including the parts of ragged outputs.
        ragged: name of each ragged output -> fields of its items.
    """
    whole: dict[str, Any] = {}
    for key, array in arrays.items():
        name, _, part = key.rpartition(".")
        if name not in ragged:
            whole[key] = array
        elif part == OFFSETS:
            parts = {field.name: arrays[f"{name}.{field.name}"] for field in ragged[name]}
            form = ragged[name][0].name
            whole[name] = Ragged(form, parts.pop(form), array, parts)
    return whole
