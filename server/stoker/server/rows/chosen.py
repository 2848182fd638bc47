"""The samples of a dataset that a stream visits, and how often, from a request's bytes.

Builders, workers and replayers each derive it from the dataset, so all get the same. Weights of 0
leave samples out, in addition to the exclude list or subset; what remains has positive weights.
"""

from typing import Literal

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from stoker.dataset import Dataset
from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest_splits import split_subset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.order.repeat import Weighting
from stoker.order.selected import Selected
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.request.stream import Selection
from stoker.protocol.spec import OrderSpec
from stoker.protocol.subset import Subset, excluded_of
from stoker.protocol.weights import (
    ClassWeights,
    FieldWeights,
    SampleWeights,
    Weights,
    check_weights,
    weights_from_bytes,
)
from stoker.server.rows.condition import samples_where
from stoker.server.work.suggestions import resolve

LABEL = "label"
SHOWN = 5
Numbers = NDArray[np.float64]


def order_spec(
    selection: Selected, *, shuffle: bool, block: int | None = None, seed: int | None = None
) -> OrderSpec:
    """Return the part of a StreamSpec about the order of one dataset."""
    kind: Literal["full", "weighted"] = "full" if selection.weighting is None else "weighted"
    return OrderSpec(kind=kind, shuffle=shuffle, weights=selection.weights, block=block, seed=seed)


def resolved(dataset: Dataset, selection: Selection) -> Selection:
    """Return a selection whose split or condition is a bitmap of samples, without excluded ones.

    Raises:
        DatasetError: the dataset's splits are damaged.
        UnknownNameError: the dataset has no such split, or the condition names an unknown field.
        UsageError: the bytes or the condition are malformed, or no sample is left.
    """
    if selection.condition:
        chosen = samples_where(dataset, selection.condition)
    elif selection.split:
        chosen = named_split(dataset, selection.split)
    else:
        return selection
    subset = chosen.without(Excluded.from_bytes(selection.exclude)).to_bytes()
    return Selection(subset=subset, weights=selection.weights)


def named_split(dataset: Dataset, name: str) -> Subset:
    """Return the samples of a split.

    Raises:
        DatasetError: the dataset's splits are damaged.
        UnknownNameError: the dataset has no such split; the message lists those that it has.
    """
    if isinstance(dataset, ClipDataset):
        return _clips_of(dataset, name, named_split(dataset.frames, name))
    splits = dataset.manifest.splits
    names = {} if splits is UNSET else {known: known for known in splits.names}
    try:
        resolve("split", name, names, "the dataset")
    except UnknownNameError as error:
        how = "" if names else " (stoker split makes them)"
        raise UnknownNameError(
            f"subset: {error.message}{how}; for a file of ids give ./{name} or a Path",
            **error.details,
        ) from None
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


def chosen_of(dataset: Dataset, selection: Selection) -> Selected:
    """Return what a stream visits of a dataset; a split of the selection has been resolved.

    Raises:
        UnknownNameError: the weights name an unknown field or class.
        UsageError: the bytes are malformed or belong to another dataset, or no sample is left.
    """
    excluded = excluded_of(selection.exclude, selection.subset, len(dataset))
    weights = selection.weights
    return weighted(dataset, excluded, weights_from_bytes(weights) if weights else None)


def weighted(dataset: Dataset, excluded: Excluded, weights: Weights | None) -> Selected:
    """Return the samples that are not excluded, with their weights, if there are any.

    Raises:
        UnknownNameError: the weights name an unknown field or class.
        UsageError: the weights do not fit the dataset, or leave no sample.
    """
    excluded.check(len(dataset))
    if weights is None:
        return Selected(len(dataset), excluded)
    keeps = np.ones(len(dataset), np.bool_)
    keeps[excluded.ids] = False
    values = _values(dataset, weights, keeps)
    keeps &= values > 0
    if not keeps.any():
        raise UsageError(
            "weights: the weights of all samples that exclude= and subset= leave are 0, so none "
            "is left"
        )
    left_out = Excluded.of_ids(np.flatnonzero(~keeps).astype(np.int64))
    return Selected(len(dataset), left_out, Weighting(values[keeps]))


def _values(dataset: Dataset, weights: Weights, keeps: NDArray[np.bool_]) -> Numbers:
    """Return the weights by sample id."""
    match weights:
        case SampleWeights():
            if len(weights.values) != len(dataset):
                raise UsageError(
                    "weights: expected one weight per sample of the dataset "
                    f"({len(dataset)}, also with subset= or exclude=), got {len(weights.values)}"
                )
            return weights.values
        case FieldWeights():
            return _of_field(dataset, weights.field)
        case ClassWeights():
            return _of_classes(dataset, weights.classes, keeps)


def _of_field(dataset: Dataset, name: str) -> Numbers:
    fields = {field.name: field for field in dataset.schema.fields}
    try:
        resolve("field", name, {field: field for field in fields}, "the dataset")
    except UnknownNameError as error:
        raise UnknownNameError(
            f"weights: {error.message}; for a file give ./{name} or a Path", **error.details
        ) from None
    where = f"weights: field {name!r}"
    if fields[name].optional is True:
        present = np.concatenate(list(dataset.numbers(fields[name].present_name)))
        if not present.all():
            raise UsageError(
                f"{where}: sample {int(np.argmin(present))} has no value; expected one in every "
                "sample"
            )
    return check_weights(_column(dataset, name), where)


def _of_classes(
    dataset: Dataset, given: dict[str | int, float], keeps: NDArray[np.bool_]
) -> Numbers:
    label = _label(dataset)
    by_number: dict[int, float] = {}
    for name, weight in given.items():
        number = _class_number(label, name)
        if number in by_number:
            raise UsageError(f"weights: class {number} of field {label.name!r} comes twice")
        by_number[number] = weight
    values = np.concatenate(list(dataset.numbers(label.name)))
    found, places = np.unique(values, return_inverse=True)
    occurring = set(np.unique(values[keeps]).tolist())
    missing = [number for number in found.tolist() if number not in by_number]
    if lacking := [_class_name(label, number) for number in missing if number in occurring]:
        more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
        raise UsageError(
            f"weights: no weight for {', '.join(lacking[:SHOWN])}{more} of field {label.name!r}: "
            "expected one for every class that the dataset has samples of; 0 leaves a class out"
        )
    table = np.array([by_number.get(number, 0.0) for number in found.tolist()], np.float64)
    weights: Numbers = table[places]
    return weights


def _label(dataset: Dataset) -> Field:
    """Return the field that weights of classes are about: `label`, or the only label."""
    labels = {field.name: field for field in dataset.schema.fields if field.kind == "label"}
    if LABEL in labels:
        return labels[LABEL]
    if len(labels) == 1:
        return next(iter(labels.values()))
    names = ", ".join(map(repr, labels)) or "none"
    raise UsageError(
        f"weights: weights of classes are about the field {LABEL!r}, or the only label; the "
        f"dataset has {names}: give one number per sample instead"
    )


def _class_number(label: Field, name: str | int) -> int:
    if isinstance(name, int):
        if label.classes is not None and not 0 <= name < len(label.classes):
            raise UsageError(
                f"weights: field {label.name!r} has classes 0 to {len(label.classes) - 1}, got "
                f"{name}"
            )
        return name
    if label.classes is None:
        raise UsageError(
            f"weights: the classes of field {label.name!r} have no names; expected their numbers, "
            f"got {name!r}"
        )
    known = {found: str(number) for number, found in enumerate(label.classes)}
    return int(resolve("class", name, known, f"field {label.name!r}"))


def _class_name(label: Field, number: int) -> str:
    names = label.classes or ()
    return f"{names[number]!r}" if 0 <= number < len(names) else f"class {number}"


def _column(dataset: Dataset, name: str) -> Numbers:
    return np.concatenate(list(dataset.numbers(name))).astype(np.float64)
