"""Splits of a dataset by name: the samples, or of a dataset of clips the clips, that are in one."""

import numpy as np
from msgspec import UNSET

from stoker.dataset import Dataset
from stoker.dataset.format.manifest_splits import split_subset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.subset import Subset
from stoker.server.work.suggestions import resolve


def named_split(dataset: Dataset, name: str) -> Subset:
    """Return the samples of a split.

    Raises:
        DatasetError: the dataset's splits are damaged.
        UnknownNameError: the dataset has no such split; the message lists those that it has.
        UsageError: a clip has frames inside and outside of the split.
    """
    if isinstance(dataset, ClipDataset):
        return _clips_of(dataset, name, named_split(dataset.frames, name))
    splits = dataset.manifest.splits
    names = {} if splits is UNSET else {known: known for known in splits.names}
    try:
        resolve("split", name, names, "the dataset")
    except UnknownNameError as error:
        how = "" if names else " (stoker split makes them)"
        raise UnknownNameError(f"{error.message}{how}", **error.details) from None
    assert splits is not UNSET
    return split_subset(splits, name, len(dataset))


def _clips_of(clips: ClipDataset, name: str, frames: Subset) -> Subset:
    """Return the clips whose frames are all in a split.

    Raises:
        UsageError: a clip has frames inside and outside of the split.
    """
    chosen = np.zeros(len(clips.frames), np.bool_)
    chosen[frames.ids] = True
    ranges = [clips.rows(clip) for clip in range(len(clips))]
    counts = np.array([np.count_nonzero(chosen[rows.start : rows.stop]) for rows in ranges])
    cut = np.flatnonzero((counts > 0) & (counts < [len(rows) for rows in ranges]))
    if cut.size:
        clip = int(cut[0])
        raise UsageError(
            f"subset: the split {name!r} has {counts[clip]} of the {len(ranges[clip])} frames of "
            f"clip {clip}, so the clip is neither in it nor outside: make a split of whole clips, "
            "or give the ids of clips"
        )
    return Subset(np.flatnonzero(counts))
