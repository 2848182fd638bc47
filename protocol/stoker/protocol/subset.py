"""Subsets: the samples that alone belong to a stream, as ids and as bytes.

A subset is another way to write an exclude list: of all samples that are not in it. So it has no
digest of its own, and `subset=A` is the same stream as an exclude list of all others. Its bytes are
a bitmap of ids (bit i of byte b is id 8 * b + i), compressed with zlib, since a list of ids would
be too long for a message. Specified in docs/contracts/bad-samples.md.
"""

import zlib
from collections.abc import Iterable, Set
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded, sample_id

MAX_SUBSET_ROWS: Final = 2**24
"""Samples of a dataset that a stream may visit a subset of."""
MAX_SUBSET_BYTES: Final = 2**21 + 2**12
"""Most bytes of a subset: room for any bitmap, also for one that zlib cannot compress."""
REMEDY: Final = "pack the subset as a dataset of its own"

Ids = NDArray[np.int64]


class Subset:
    """Samples that alone belong to a stream.

    Attributes:
        ids: (k,) int64, ascending, every id once.
    """

    def __init__(self, ids: Iterable[int], *, sort: bool = True) -> None:
        """Make a subset of ids.

        Args:
            ids: the ids.
            sort: whether they may come in any order.

        Raises:
            UsageError: the list is empty, a value is not a sample id or comes twice, or the ids are
                not ascending and must not be sorted.
        """
        self.ids = _numbers(ids)
        if not len(self.ids):
            raise UsageError("subset: expected at least one sample id, got none")
        order = np.sort(self.ids)
        if (twice := order[1:][np.diff(order) == 0]).size:
            raise UsageError(
                f"subset: sample {twice[0]} comes twice; an epoch visits every sample once: list"
                " each id once, and use views=n for n rows of every sample"
            )
        if not sort and not isinstance(ids, Set) and (order != self.ids).any():
            raise UsageError(
                "subset: the ids are not ascending, and with shuffle=False the samples come in the"
                " order of their ids: give sorted(ids)"
            )
        if order[-1] >= MAX_SUBSET_ROWS:
            raise UsageError(
                f"subset: expected ids below 2**24, got {order[-1]}; of a larger dataset, {REMEDY}"
            )
        self.ids = order

    @staticmethod
    def from_bytes(data: bytes) -> "Subset":
        """Parse the bytes that `to_bytes` returned.

        Raises:
            UsageError: the bytes are not a subset: damaged, too long, or without an id.
        """
        inflate = zlib.decompressobj()
        try:
            bits = inflate.decompress(data, MAX_SUBSET_ROWS // 8)
        except zlib.error:
            raise UsageError("subset: expected a bitmap of ids compressed with zlib") from None
        if not inflate.eof or inflate.unused_data:
            raise UsageError(f"subset: expected a bitmap of at most {MAX_SUBSET_ROWS // 8} bytes")
        found = Subset.__new__(Subset)
        found.ids = np.flatnonzero(_flags(bits)).astype(np.int64)
        if not len(found.ids):
            raise UsageError("subset: expected at least one sample id, got none")
        return found

    def to_bytes(self) -> bytes:
        """Return the ids as a compressed bitmap."""
        flags = np.zeros(int(self.ids[-1]) + 1, np.bool_)
        flags[self.ids] = True
        return zlib.compress(np.packbits(flags, bitorder="little").tobytes())

    def without(self, excluded: Excluded) -> "Subset":
        """Return the subset without the samples of an exclude list.

        Raises:
            UsageError: none is left.
        """
        left = np.setdiff1d(self.ids, excluded.ids, assume_unique=True)
        if not len(left):
            raise UsageError("subset: exclude= leaves out all of its samples, so none is left")
        return Subset(left)

    def excluded(self, rows: int) -> Excluded:
        """Return the exclude list of all other samples of a dataset of this many samples.

        Raises:
            UsageError: the subset names an id that the dataset does not have, or the dataset has
                too many samples.
        """
        if self.ids[-1] >= rows:
            raise UsageError(
                f"subset: the dataset has {rows} samples, ids 0 to {rows - 1}; the list names "
                f"{self.ids[-1]}: does it belong to another dataset?"
            )
        if rows > MAX_SUBSET_ROWS:
            raise UsageError(
                f"subset: expected a dataset of at most 2**24 samples, got {rows}; {REMEDY}"
            )
        others = np.ones(rows, np.bool_)
        others[self.ids] = False
        return Excluded.of_ids(np.flatnonzero(others).astype(np.int64))


def excluded_of(exclude: bytes, subset: bytes, rows: int) -> Excluded:
    """Return the samples that a stream leaves out, of the bytes that came with its request.

    Args:
        exclude: bytes of an exclude list, or empty.
        subset: bytes of a subset, or empty; of these samples the list leaves some out.
        rows: number of samples in the dataset.

    Raises:
        UsageError: the bytes are malformed, or belong to another dataset, or no sample is left.
    """
    excluded = Excluded.from_bytes(exclude)
    if not subset:
        return excluded
    excluded.check(rows)
    return Subset.from_bytes(subset).without(excluded).excluded(rows)


def _flags(bits: bytes) -> NDArray[np.bool_]:
    packed = np.frombuffer(bits, np.uint8)
    return np.unpackbits(packed, bitorder="little").astype(np.bool_)


def _numbers(ids: Iterable[int]) -> Ids:
    """Return ids in their order; arrays of integers are not taken apart."""
    if isinstance(ids, np.ndarray):
        if ids.dtype == np.bool_:
            raise UsageError(
                "subset: expected sample ids, got an array of bool: give np.flatnonzero(mask)"
            )
        if ids.ndim == 1 and ids.dtype.kind in "iu":
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < MAX_SUBSET_ROWS:
                raise UsageError(
                    f"subset: expected ids from 0 to 2**24 - 1, got {ids.min()} to {ids.max()}"
                )
            return ids.astype(np.int64)
    return np.array([sample_id(number, "subset") for number in ids], np.int64)
