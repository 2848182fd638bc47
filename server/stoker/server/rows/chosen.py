"""The samples of a dataset that a stream visits, and how often, from a request's bytes.

Builders, workers and replayers each derive it from the dataset, so all get the same. Weights of 0
leave samples out, in addition to the exclude list or subset; what remains has positive weights.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stoker.dataset import Dataset
from stoker.dataset.format.fields import Field
from stoker.order.repeat import Weighting
from stoker.order.selected import Selected
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.request.stream_request import Selection
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
from stoker.server.rows.named_splits import named_split
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
        chosen = split_named(dataset, selection.split)
    else:
        return selection
    subset = chosen.without(Excluded.from_bytes(selection.exclude)).to_bytes()
    return Selection(subset=subset, weights=selection.weights)


def split_named(dataset: Dataset, name: str) -> Subset:
    """Return the samples of the split that `subset=` names; errors as those of `named_split`."""
    try:
        return named_split(dataset, name)
    except UnknownNameError as error:
        raise UnknownNameError(
            f"subset: {error.message}; for a file of ids give ./{name} or a Path", **error.details
        ) from None


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
