"""Digests of rows v1: what `verify` compares on both sides of a slab.

The digest of a row is XXH64 (seed 0) over what it holds of each output of the batch, in the order
of READY: the row's bytes as they are in the slot, without room that the row does not use. That is,
of boxes and keypoints the records that count; of rows of form `ragged` and `list` the elements
within their size; of every other output all bytes, padding within the row too. A worker computes it
right after it wrote the row, the client right before it hands the row out. `stoker.protocol.chain`
makes digests of batches of them. Specified with vectors in docs/contracts/slots.md.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from xxhash import xxh64

from stoker.protocol.chain import ROW_DIGEST_BYTES
from stoker.protocol.item_fields import COUNT, DTYPES
from stoker.protocol.slot_layout import SIZE, Output, Placed


class RowDigests:
    """Computes the digests of rows in slots of one stream."""

    def __init__(self, outputs: Iterable[Output]) -> None:
        """Prepare for the outputs of the stream; those of fixed size may be missing."""
        outputs = tuple(outputs)
        self._items = {output.name for output in outputs if output.items}
        self._cut = {o.name: o.varies for o in outputs if o.form in ("ragged", "list")}

    def of(self, slot: np.ndarray, placed: Sequence[Placed], first: int, stop: int) -> bytes:
        """Return the digests of the rows [first, stop) of a batch, 8 bytes each.

        Args:
            slot: (slot_bytes,) uint8.
            placed: the outputs of the batch, in the order of READY.
            first: the first row, counted from the start of the slot.
            stop: the end of the rows.
        """
        columns = {one.name: _rows(slot, one, first, stop) for one in placed}
        hashers = [xxh64() for _ in range(first, stop)]
        for one in placed:
            raw = _bytes(columns[one.name])
            used = self._used(one, columns)
            if used is None:
                for hasher, row in zip(hashers, raw, strict=True):
                    hasher.update(row)
            else:
                for hasher, row, count in zip(hashers, raw, used.tolist(), strict=True):
                    hasher.update(row[:count])
        found = (hasher.intdigest() for hasher in hashers)
        return b"".join(digest.to_bytes(ROW_DIGEST_BYTES, "little") for digest in found)

    def _used(self, one: Placed, columns: dict[str, np.ndarray]) -> np.ndarray | None:
        """Return how many bytes of each row count; None if all do.

        Counts and sizes may have been overwritten; a slice is never longer than the row.
        """
        if one.name in self._items:
            words = math.prod(one.shape[2:])
            counts = columns[f"{one.name}.{COUNT}"]
            counted: np.ndarray = np.clip(counts, 0, one.shape[1]) * (words * DTYPES[one.dtype])
            return counted
        if one.name in self._cut:
            varies = self._cut[one.name]
            room = np.array([one.shape[1 + place] for place in varies])
            sizes = np.clip(columns[f"{one.name}.{SIZE}"], 0, room)
            fixed = [side for i, side in enumerate(one.shape[1:]) if i not in varies]
            found: np.ndarray = sizes.prod(1) * (math.prod(fixed) * DTYPES[one.dtype])
            return found
        return None


def _rows(slot: np.ndarray, one: Placed, first: int, stop: int) -> np.ndarray:
    whole = np.ndarray(one.shape, one.dtype, slot, one.offset)
    part: np.ndarray = whole[first:stop]
    return part


def _bytes(rows: np.ndarray) -> np.ndarray:
    """Return the bytes of each row, (rows, row bytes)."""
    return rows.reshape(len(rows), -1).view(np.uint8)
