"""Named splits in the manifest: parts of a dataset that are fixed once, for every run.

A split is a subset by name. Its ids are stored as the bytes of `stoker.protocol.subset`, in base64.
Splits are not part of the fingerprint: they choose among samples and change none. A stream has the
digest of the samples that it leaves out, so it is tied to the ids and not to the name.
"""

import base64
import binascii

import msgspec

from stoker.protocol.errors import DatasetError, UsageError
from stoker.protocol.subset import Subset

VERSION = 1


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """One split: how many samples it has, and their ids."""

    rows: int
    ids: str


class Splits(msgspec.Struct, frozen=True, kw_only=True):
    """The splits of a dataset.

    Attributes:
        version: of this record.
        made: how they were made, in words.
        names: the splits by name.
    """

    version: int = VERSION
    made: str = ""
    names: dict[str, Split] = {}


def make_split(subset: Subset) -> Split:
    """Return a subset as the manifest stores it."""
    return Split(rows=len(subset.ids), ids=base64.b64encode(subset.to_bytes()).decode("ascii"))


def split_subset(splits: Splits, name: str, rows: int) -> Subset:
    """Return the samples of a split.

    Args:
        splits: those of the dataset.
        name: one of them.
        rows: number of samples in the dataset.

    Raises:
        DatasetError: the record is damaged, or was written by a newer version.
    """
    if splits.version != VERSION:
        raise DatasetError(
            f"the splits of the dataset have version {splits.version}, but this Stoker reads "
            f"{VERSION}: update it, or make them again with stoker split --overwrite"
        )
    split = splits.names[name]
    try:
        subset = Subset.from_bytes(base64.b64decode(split.ids, validate=True))
    except (binascii.Error, UsageError) as error:
        raise _damaged(name, str(error)) from None
    if len(subset.ids) != split.rows or subset.ids[-1] >= rows:
        raise _damaged(name, f"{len(subset.ids)} ids up to {subset.ids[-1]} of {rows} samples")
    return subset


def _damaged(name: str, what: str) -> DatasetError:
    return DatasetError(
        f"split {name!r} of the dataset is damaged: {what}; make it again with stoker split "
        "--overwrite"
    )
