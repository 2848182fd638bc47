"""Opening a dataset by its path: a packed folder, a source read in place, or a live source.

The top of the package. For a source read in place, its index is made here if it is missing or out
of date. Runs in workers and in user processes; imports no pyarrow, numba or torch for packed
datasets.
"""

import os
from pathlib import Path
from typing import Final

from stoker.dataset.format.manifest import NAME
from stoker.dataset.format.marked_file import marked_folder
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.dataset.reading.integrity import RowCheck, is_cheap
from stoker.dataset.reading.packed import MAX_MAPS, open_folder
from stoker.protocol.datasets import is_live
from stoker.protocol.errors import DatasetError, UsageError

INTEGRITY: Final = ("off", "auto", "rows")


def open_dataset(
    path: str | os.PathLike[str],
    *,
    max_maps: int = MAX_MAPS,
    expected: str | None = None,
    integrity: str = "auto",
) -> Dataset:
    """Open a dataset.

    Args:
        path: the folder that `stoker pack` wrote, or a file that names it (`train.beton` for
            `train.beton.stoker`, see `stoker.dataset.format.marked_file`); or a source that is read
            in place: tar or Arrow files, by folder, file or pattern (its index is made if it is
            missing or out of date); or the `module:Class` of a live source.
        max_maps: maximum number of files that are mapped at once.
        expected: the fingerprint that it must have; then no index is made, and a dataset that has
            grown since is opened as it was.
        integrity: "rows": pipelines compare each row that they read with its stored check. "auto":
            only where rows have an image to be decoded, which costs far more. A live source
            stores nothing.

    Raises:
        DatasetError: it is missing, damaged, or not the expected one; or samples are bad.
        VersionError: it was packed by a newer Stoker.
        UsageError: the source cannot be read in place, or `integrity` is unknown, or "rows"
            although the dataset has no checks.
    """
    if integrity not in INTEGRITY:
        raise UsageError(f"integrity: expected one of {', '.join(INTEGRITY)}, got {integrity!r}")
    name = os.fspath(path)
    if is_live(name):
        from stoker.dataset.reading.live import open_live  # noqa: PLC0415 - it is a Dataset too

        dataset: Dataset = open_live(name)
    else:
        dataset = open_folder(_folder_of(Path(path), expected is None), max_maps, expected)
    if expected not in (None, dataset.fingerprint):
        dataset.close()
        raise DatasetError(
            f"dataset {path}: expected fingerprint {expected}, as when the stream was opened, got "
            f"{dataset.fingerprint}; open the stream again",
            dataset=str(path),
        )
    if not is_live(name) and (integrity == "rows" or (integrity == "auto" and is_cheap(dataset))):
        dataset.check_row = RowCheck(dataset)
    return dataset


def _folder_of(path: Path, may_make: bool) -> Path:
    """Return the folder with the manifest: of the dataset itself, or of an index."""
    if (path / NAME).exists():
        return path
    if path.is_file():
        marked = marked_folder(path)
        if marked is not None:
            return marked
    # Sources have many imports, which a worker on a packed dataset does not need.
    from stoker.dataset.packing import in_place  # noqa: PLC0415

    if not in_place.can_be_in_place(path):
        return path
    return in_place.current_index(path) if may_make else in_place.index_folder(path)
