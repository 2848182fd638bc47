"""Give a packed dataset named splits, such as train and val, once for all runs.

Parts are fractions, counts, lists of ids, or the classes of a label. Fractions and counts are cut
from a random order of the samples. The result is written into the manifest; no file of samples and
no fingerprint changes.
"""

import contextlib
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from stoker.dataset.format.manifest import Manifest, read_manifest, write_manifest
from stoker.dataset.format.manifest_splits import Splits, make_split
from stoker.dataset.packing.build import disk_errors, open_work
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.dataset.reading.packed import PackedDataset, open_folder
from stoker.protocol.canonical import digest128
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.splits import NAME
from stoker.protocol.subset import MAX_SUBSET_ROWS, Subset

REST = "rest"
Ids = NDArray[np.int64]
Part = float | int | str | Iterable[int]
_CLOSE = 1e-9


def split(
    path: str | os.PathLike[str],
    parts: Mapping[str, Part],
    *,
    seed: int = 0,
    stratify: str = "",
    overwrite: bool = False,
) -> Manifest:
    """Split a packed dataset and write the splits into its manifest.

    Args:
        path: folder of the dataset.
        parts: name -> its part: a float (a fraction of the samples), an integer (a number of
            samples), "rest" (what the other fractions or counts leave), or ids. Fractions and
            counts never overlap, and must add up to all samples; lists of ids may be anything.
        seed: 0 to 2**64 - 1, of the random order that fractions and counts are cut from.
        stratify: name of a label: each of its classes is cut by itself, so all parts have its
            proportions.
        overwrite: whether splits that the dataset already has are replaced.

    Returns:
        The new manifest.

    Raises:
        DatasetError: there is no dataset.
        UnknownNameError: there is no such label.
        UsageError: the parts are impossible, or the dataset already has splits.
        ResourceError: the disk is full.
    """
    folder = Path(path)
    lists = {name: part for name, part in parts.items() if _is_list(part)}
    drawn = {name: part for name, part in parts.items() if name not in lists}
    _check_names(parts)
    if any(isinstance(part, float) for part in drawn.values()):
        _bounds(1, drawn, bool(stratify))  # fractions fit every number of samples, or none
    with writable(folder) as dataset:
        _check(dataset, overwrite)
        found = {name: Subset(ids) for name, ids in lists.items()}  # type: ignore[arg-type]
        groups = _groups(dataset, stratify) if stratify else [np.arange(len(dataset))]
        if drawn:
            found |= _cut(groups, drawn, seed)
        return _write(dataset, {name: found[name] for name in parts}, _made(parts, seed, stratify))


def split_by(path: str | os.PathLike[str], field: str, *, overwrite: bool = False) -> Manifest:
    """Split a packed dataset by a label: each class that occurs becomes a split of its name.

    Raises:
        DatasetError: there is no dataset.
        UnknownNameError: there is no such label.
        UsageError: the label has no names of classes, or one cannot name a split.
        ResourceError: the disk is full.
    """
    folder = Path(path)
    with writable(folder) as dataset:
        classes = _label(dataset, field) or ()
        if not classes:
            raise UsageError(
                f"split: the classes of field {field!r} have no names, which splits need; pack "
                "with names, or give lists of ids"
            )
        labels = np.concatenate(list(dataset.numbers(field)))
        found = {
            name: Subset(np.flatnonzero(labels == number))
            for number, name in enumerate(classes)
            if (labels == number).any()
        }
        _check_names(found)
        _check(dataset, overwrite)
        return _write(dataset, found, f"by field {field}")


@contextlib.contextmanager
def writable(folder: Path) -> Iterator[PackedDataset]:
    """Open a dataset, while no other process writes it."""
    read_manifest(folder)
    with open_work(folder, overwrite=True) as work, open_folder(folder) as dataset:
        for left in work.glob("*.partial"):  # of a process that was killed
            left.unlink()
        try:
            yield dataset
        finally:
            if len(list(work.iterdir())) == 1:  # only the lock: no packing was interrupted here
                shutil.rmtree(work)


def _check(dataset: Dataset, overwrite: bool) -> None:
    manifest = dataset.manifest
    if manifest.source is not UNSET:
        raise UsageError(
            f"{dataset.path} is an index of files that are read in place, which is made again when "
            "they change: pack it to give it splits, or give the Loader a file of ids as subset="
        )
    if manifest.splits is not UNSET and not overwrite:
        raise UsageError(
            f"{dataset.path} already has the splits {', '.join(manifest.splits.names)}; runs that "
            "use them would see other samples: pass --overwrite to replace them all"
        )
    if len(dataset) > MAX_SUBSET_ROWS:
        raise UsageError(
            f"split: expected a dataset of at most 2**24 samples, got {len(dataset)}: pack the "
            "parts as datasets of their own"
        )


def _check_names(names: Iterable[str]) -> None:
    given = list(names)
    if not given:
        raise UsageError("split: expected at least one NAME=PART, such as train=0.9 val=0.1")
    for name in given:
        if not NAME.fullmatch(name):
            raise UsageError(
                f"split: {name!r}: expected a name of letters, digits, - and _ that does not begin "
                "with a digit"
            )


def _cut(groups: Sequence[Ids], parts: Mapping[str, Part], seed: int) -> dict[str, Subset]:
    """Cut each group's random order into parts; return the samples of each."""
    found: dict[str, list[Ids]] = {name: [] for name in parts}
    for group in groups:
        order = _shuffled(group, seed)
        bounds = _bounds(len(order), parts, len(groups) > 1)
        for name, ids in zip(parts, np.split(order, bounds), strict=True):
            found[name].append(ids)
    subsets = {}
    for name, pieces in found.items():
        ids = np.concatenate(pieces)
        if not len(ids):
            raise UsageError(f"split: {name}={parts[name]!r} of so few samples is empty")
        subsets[name] = Subset(ids)
    return subsets


def _shuffled(ids: Ids, seed: int) -> Ids:
    """Return ids in a random order: by a hash of (seed, id), with the mixer of splitmix64."""
    key = np.uint64(int(digest128(seed.to_bytes(8, "little"))[:16], 16))
    mixed = (ids.astype(np.uint64) + key) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    order: Ids = ids[np.argsort(mixed ^ mixed >> np.uint64(31), kind="stable")]
    return order


def _bounds(rows: int, parts: Mapping[str, Part], is_stratified: bool) -> list[int]:
    """Return where the order is cut: the end of every part but the last."""
    numbers = {name: part for name, part in parts.items() if part != REST}
    rests = len(parts) - len(numbers)
    counts = all(isinstance(part, int) for part in numbers.values())
    if not counts and not all(isinstance(part, float) for part in numbers.values()):
        raise UsageError(f"split: {_listed(parts)}: expected fractions or counts, got both")
    if counts and numbers and is_stratified:
        raise UsageError(f"split: {_listed(parts)}: with --stratify expected fractions")
    total = sum(numbers.values())  # type: ignore[arg-type]
    whole = rows if counts else 1.0
    left = whole - total
    if any(part <= 0 for part in numbers.values()) or rests > 1 or left < -_CLOSE:  # type: ignore
        raise UsageError(
            f"split: {_listed(parts)}: expected positive parts of {whole} in all, and at most one "
            f"{REST!r}"
        )
    if left > _CLOSE and not rests:
        raise UsageError(
            f"split: {_listed(parts)}: the parts leave {left:g} of {whole} samples in no split; "
            f"add NAME={REST}, or larger parts"
        )
    ends, done = [], 0.0
    for part in list(parts.values())[:-1]:
        done += left if part == REST else part  # type: ignore[operator]
        ends.append(round(done if counts else done * rows))
    return ends


def _groups(dataset: Dataset, field: str) -> list[Ids]:
    _label(dataset, field)
    labels = np.concatenate(list(dataset.numbers(field)))
    return [np.flatnonzero(labels == number) for number in np.unique(labels)]


def _label(dataset: Dataset, name: str) -> tuple[str, ...] | None:
    """Return the names of a label's classes."""
    labels = {field.name: field for field in dataset.schema.fields if field.kind == "label"}
    if name not in labels:
        known = ", ".join(map(repr, labels)) or "none"
        raise UnknownNameError(f"split: there is no label {name!r}; the dataset has {known}")
    return labels[name].classes


def _write(dataset: Dataset, found: Mapping[str, Subset], made: str) -> Manifest:
    for name, subset in found.items():
        if subset.ids[-1] >= len(dataset):
            raise UsageError(
                f"split: {name} has sample {subset.ids[-1]}, but the dataset has {len(dataset)} "
                f"samples, ids 0 to {len(dataset) - 1}"
            )
    splits = Splits(made=made, names={name: make_split(subset) for name, subset in found.items()})
    manifest = msgspec.structs.replace(dataset.manifest, splits=splits)
    with disk_errors(dataset.path):
        write_manifest(dataset.path, manifest)
    return manifest


def _is_list(part: Part) -> bool:
    if isinstance(part, bool) or (isinstance(part, str) and part != REST):
        raise UsageError(f"split: {part!r}: expected a fraction, a count, {REST!r}, or ids")
    if isinstance(part, float) and not math.isfinite(part):
        raise UsageError(f"split: expected a finite fraction, got {part}")
    return not isinstance(part, float | int | str)


def _listed(parts: Mapping[str, Part]) -> str:
    return " ".join(f"{name}={part}" for name, part in parts.items())


def _made(parts: Mapping[str, Part], seed: int, stratify: str) -> str:
    given = {name: "ids" if _is_list(part) else part for name, part in parts.items()}
    return f"{_listed(given)} seed={seed}{f' stratify={stratify}' if stratify else ''}"
