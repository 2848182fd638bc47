"""Weights of a dataset: fields, classes and arrays, with exclude lists; what cannot be weighted."""

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
    (lambda pets: of(pets, [1.0] * 9), UsageError,
     r"expected one weight per sample of the dataset \(10, also with subset="),
    (lambda pets: of(pets, {"cat": 1}), UsageError,
     "no weight for 'dog', 'bird' of field 'label'"),
    (lambda pets: of(pets, {"cat": 1, "dog": 1}), UsageError,
     "no weight for 'bird' of field 'label': expected one for every"),
    (lambda pets: of(pets, {"cat": 1, "dog": 1, 0: 1}), UsageError,
     "class 0 of field 'label' comes twice"),
    (lambda pets: of(pets, {"cat": 1, "dog": 1, 4: 1}), UsageError,
     "field 'label' has classes 0 to 3, got 4"),
    (lambda pets: of(pets, {"cats": 1, "dog": 1}), UnknownNameError,
     "there is no class 'cats', did you mean 'cat'.; field 'label' has 'bird', 'cat', 'dog'"),
    (lambda pets: of(pets, "broken"), UsageError,
     "field 'broken': expected finite numbers from 0, got -1.0 for sample 4"),
    (lambda pets: of(pets, "quality", subset=Subset([1, 6]).to_bytes()), UsageError,
     "exclude= and subset= leave are 0, so none is left"),
    (lambda pets: of(pets, "qualty"), UnknownNameError,
     "weights: there is no field 'qualty', did you mean 'quality'.*give ./qualty or"),
    (lambda pets: of(pets, "words"), UsageError,
     "field 'words' of dataset .* is not one number per sample"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_weights_that_do_not_fit(pets, call, error, message):
    with pytest.raises(error, match=message):
        call(pets)


def test_splits_by_name(tmp_path):
    write(tmp_path / "d", [schema.label()], [{"label": 0} for _ in range(10)])
    with (
        open_dataset(tmp_path / "d") as dataset,
        pytest.raises(
            UnknownNameError,
            match=r"no split 'train'; the dataset has none \(stoker split makes them\); for a",
        ),
    ):
        resolved(dataset, Selection(split="train"))
    split(tmp_path / "d", {"train": [0, 1, 2, 3, 4], "val": [7, 8]})
    with open_dataset(tmp_path / "d") as dataset:
        few = Selection(split="train", exclude=Excluded([1, 9]).to_bytes())
        found = resolved(dataset, few)
        assert found == Selection(subset=Subset([0, 2, 3, 4]).to_bytes())
        for other in (Selection(subset=Subset([3]).to_bytes()), Selection()):
            assert resolved(dataset, other) == other
        with pytest.raises(
            UnknownNameError,
            match=r"no split 'trian', did you mean 'train'\?; .* 'train', 'val'; for a file",
        ):
            resolved(dataset, Selection(split="trian"))
        with pytest.raises(UsageError, match="exclude= leaves out all of its samples"):
            resolved(dataset, Selection(split="val", exclude=Excluded([7, 8]).to_bytes()))


def test_labels_without_names_and_datasets_without_a_label(tmp_path):
    write(tmp_path / "one", [schema.label("kind")], [{"kind": n % 2 + 5} for n in range(4)])
    with open_dataset(tmp_path / "one") as dataset:
        assert of(dataset, {5: 1, 6: 3}).weighting.count == 4
        with pytest.raises(UsageError, match="classes of field 'kind' have no names; expected"):
            of(dataset, {"cat": 1})
        with pytest.raises(UsageError, match="no weight for class 6 of field 'kind'"):
            of(dataset, {5: 1})
    fields = [schema.label("kind"), schema.label("shape")]
    write(tmp_path / "two", fields, [{"kind": 1, "shape": 2}])
    with (
        open_dataset(tmp_path / "two") as dataset,
        pytest.raises(
            UsageError,
            match="about the field 'label', or the only label; the dataset has 'kind', 'sh",
        ),
    ):
        of(dataset, {1: 1})
