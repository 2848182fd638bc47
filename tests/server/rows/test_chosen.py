"""Weights of a dataset: fields, classes and arrays, with exclude lists; what cannot be weighted."""

from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.splitting import split
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.request.stream_request import Selection
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_of
from stoker.server.rows.chosen import chosen_of, resolved, weighted

LABELS = [0, 1, 2, 0, 0, 1, 2, 0, 0, 0]
CLASSES = ("cat", "dog", "bird", "unseen")
QUALITY = [1.5, 0.0, 2.0, 1.0, 1.0, 1.0, 0.0, 1.0, 3.0, 1.0]


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """Ten samples of three classes out of four, in two files, with a quality."""
    fields = [
        schema.label(classes=CLASSES),
        schema.scalar("quality", "float32"),
        schema.scalar("broken", "float64"),
        schema.array("words", "int32", (None,)),
    ]
    rows = [
        {"label": label, "quality": quality, "broken": -1.0 * (n == 4), "words": np.arange(n)}
        for n, (label, quality) in enumerate(zip(LABELS, QUALITY, strict=True))
    ]
    dest = tmp_path_factory.mktemp("chosen") / "pets"
    write(dest, fields, rows, cut=Cut(rows=4))
    with open_dataset(dest) as dataset:
        yield dataset


@pytest.fixture(scope="module")
def has(pets, tmp_path_factory):
    """Four datasets; the samples of `divided` are in splits."""
    folder = tmp_path_factory.mktemp("chosen")
    write(folder / "divided", [schema.label()], [{"label": 0}] * 10)
    split(folder / "divided", {"train": [0, 1, 2, 3, 4], "val": [7, 8]})
    labels = schema.label("kind"), schema.label("shape")
    write(folder / "two_labels", labels, [{"kind": 1, "shape": 2}])
    write(folder / "without_names", labels[:1], [{"kind": n % 2 + 5} for n in range(4)])
    with ExitStack() as stack:
        made = {path.name: stack.enter_context(open_dataset(path)) for path in folder.iterdir()}
        yield SimpleNamespace(pets=pets, **made)


def ids(*numbers):
    return Excluded(numbers).to_bytes()


def of(dataset, given, **lists):
    return chosen_of(dataset, Selection(weights=weights_of(given).to_bytes(), **lists))


def test_every_form_of_the_same_weights_is_the_same_stream(pets):
    classes = np.array([2.0, 1.0, 5.0])[LABELS]
    forms = [
        of(pets, classes),
        of(pets, {"cat": 2, "dog": 1, "bird": 5}),
        of(pets, {0: 2, 1: 1, 2: 5, "unseen": 9}),
        of(pets, classes * 4),
    ]
    assert len({chosen.weights for chosen in forms}) == 1
    assert [chosen.excluded.digest for chosen in forms] == [None] * 4
    quality = of(pets, "quality")
    assert quality.weights == of(pets, QUALITY).weights
    assert quality.excluded.ids.tolist() == [1, 6]
    assert quality.weighting.count == 8


def test_weights_with_an_exclude_list_and_a_subset(pets):
    excluded = Excluded([0, 1])
    by_list = of(pets, "quality", exclude=excluded.to_bytes())
    by_subset = of(pets, "quality", subset=Subset(range(2, 10)).to_bytes())
    assert by_list.excluded.ids.tolist() == [0, 1, 6] == by_subset.excluded.ids.tolist()
    assert by_list.weights == by_subset.weights
    both = of(pets, "quality", subset=Subset(range(1, 10)).to_bytes(), exclude=excluded.to_bytes())
    assert both.excluded.ids.tolist() == [0, 1, 6], "of the subset, the list leaves some out"
    same = weighted(pets, excluded, weights_of(QUALITY))
    assert (same.excluded.digest, same.weights) == (
        by_list.excluded.digest, by_list.weights,
    )  # fmt: skip


def test_a_class_whose_samples_are_all_left_out_needs_no_weight(pets):
    birds = Excluded([2, 6]).to_bytes()
    assert of(pets, {"cat": 1, "dog": 2}, exclude=birds).weighting.count == 8


def test_no_weights(pets):
    assert chosen_of(pets, Selection()).weighting is None
    assert chosen_of(pets, Selection()).weights is None


ERRORS = [
    (lambda has: of(has.pets, [1.0] * 9), UsageError,
     r"expected one weight per sample of the dataset \(10, also with subset="),
    (lambda has: of(has.pets, {"cat": 1}), UsageError,
     "no weight for 'dog', 'bird' of field 'label'"),
    (lambda has: of(has.pets, {"cat": 1, "dog": 1}), UsageError,
     "no weight for 'bird' of field 'label': expected one for every"),
    (lambda has: of(has.pets, {"cat": 1, "dog": 1, 0: 1}), UsageError,
     "class 0 of field 'label' comes twice"),
    (lambda has: of(has.pets, {"cat": 1, "dog": 1, 4: 1}), UsageError,
     "field 'label' has classes 0 to 3, got 4"),
    (lambda has: of(has.pets, {"cats": 1, "dog": 1}), UnknownNameError,
     "there is no class 'cats', did you mean 'cat'.; field 'label' has 'bird', 'cat', 'dog'"),
    (lambda has: of(has.pets, "broken"), UsageError,
     "field 'broken': expected finite numbers from 0, got -1.0 for sample 4"),
    (lambda has: of(has.pets, "quality", subset=Subset([1, 6]).to_bytes()), UsageError,
     "exclude= and subset= leave are 0, so none is left"),
    (lambda has: of(has.pets, "qualty"), UnknownNameError,
     "weights: there is no field 'qualty', did you mean 'quality'.*give ./qualty or"),
    (lambda has: of(has.pets, "words"), UsageError,
     "field 'words' of dataset .* is not one number per sample"),
    (lambda has: of(has.two_labels, {1: 1}), UsageError,
     "about the field 'label', or the only label; the dataset has 'kind', 'sh"),
    (lambda has: of(has.without_names, {5: 1}), UsageError,
     "no weight for class 6 of field 'kind'"),
    (lambda has: of(has.without_names, {"cat": 1}), UsageError,
     "classes of field 'kind' have no names; expected"),
    (lambda has: resolved(has.divided, Selection(split="trian")), UnknownNameError,
     r"no split 'trian', did you mean 'train'\?; .* 'train', 'val'; for a file"),
    (lambda has: resolved(has.divided, Selection(split="val", exclude=ids(7, 8))), UsageError,
     "exclude= leaves out all of its samples"),
    (lambda has: resolved(has.pets, Selection(split="train")), UnknownNameError,
     r"no split 'train'; the dataset has none \(stoker split makes them\); for a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_what_does_not_fit(has, call, error, message):
    with pytest.raises(error, match=message):
        call(has)


def test_splits_by_name(has):
    found = resolved(has.divided, Selection(split="train", exclude=ids(1, 9)))
    assert found == Selection(subset=Subset([0, 2, 3, 4]).to_bytes())
    for other in (Selection(subset=Subset([3]).to_bytes()), Selection()):
        assert resolved(has.divided, other) == other


def test_labels_without_names(has):
    assert of(has.without_names, {5: 1, 6: 3}).weighting.count == 4
