"""Named splits: how datasets are cut, what the manifest keeps, and what is refused."""

import json
import os
import signal

import msgspec
import numpy as np
import pytest
from commands import call
from daemons import children, serving

from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.manifest import NAME, read_manifest, write_manifest
from stoker.dataset.format.manifest_splits import Split, Splits, split_subset
from stoker.dataset.packing.splitting import split, split_by
from stoker.pipeline import pipeline
from stoker.protocol.errors import DatasetError, ResumeError, UnknownNameError, UsageError

ROWS = 100


@pytest.fixture
def dataset(tmp_path):
    """100 samples: a label of 4 classes, one of them rare, and one that names parts."""
    fields = [
        schema.label("kind"),
        schema.label("part", classes=("train", "val", "unused")),
        schema.scalar("x", "int32"),
    ]
    rows = [{"kind": min(n % 10, 3), "part": int(n >= 90), "x": n} for n in range(ROWS)]
    write(tmp_path / "d", fields, rows)
    return tmp_path / "d"


def ids(folder, name):
    return split_subset(read_manifest(folder).splits, name, ROWS).ids.tolist()


def test_fractions(dataset):
    before = read_manifest(dataset)
    made = split(dataset, {"train": 0.8, "val": 0.15, "test": 0.05})
    parts = [ids(dataset, name) for name in ("train", "val", "test")]
    assert list(map(len, parts)) == [80, 15, 5]
    assert sorted(id_ for part in parts for id_ in part) == list(range(ROWS))
    assert parts[1] != list(range(80, 95))
    assert made.fingerprint == before.fingerprint
    assert msgspec.structs.replace(made, splits=before.splits) == before
    assert sorted(path.name for path in dataset.iterdir()) == sorted(
        [NAME, *(file.name for file in made.files)]
    )
    with open_dataset(dataset) as opened:
        assert opened.manifest == made


def test_the_seed_decides(dataset):
    found = []
    for seed in (0, 0, 2**64 - 1):
        split(dataset, {"train": 0.5, "val": "rest"}, seed=seed, overwrite=True)
        found.append(ids(dataset, "train"))
    assert found[0] == found[1] != found[2]


def test_counts_rest_and_lists(dataset):
    split(dataset, {"val": 7, "train": "rest", "odd": range(1, ROWS, 2), "few": [3, 1]})
    assert len(ids(dataset, "val")) == 7
    assert sorted(ids(dataset, "val") + ids(dataset, "train")) == list(range(ROWS))
    assert ids(dataset, "odd") == list(range(1, ROWS, 2))
    assert ids(dataset, "few") == [1, 3]
    assert read_manifest(dataset).splits.made == "val=7 train=rest odd=ids few=ids seed=0"


@pipeline
def numbered(sample):
    return {"x": sample.x}


@pytest.mark.slow
@pytest.mark.parametrize("subset", ["train", "split == 'train'"])
def test_a_daemon_gives_new_streams_the_new_split_and_keeps_the_old_one_for_others(
    dataset, tmp_path, subset
):
    """The old stream goes on with its samples, also in a worker that is started later."""
    first, second = list(range(0, 40)), list(range(30, 90))
    split(dataset, {"train": first})
    (tmp_path / "r").mkdir()
    with serving(tmp_path / "r", f"--dataset=data={dataset}", "--workers=1") as daemon:
        options = {"dataset": "data", "subset": subset, "batch_size": 10, "device": "numpy"}

        def opened() -> Loader:
            return Loader(daemon.address, pipeline=numbered, seed=1, total_epochs=1, **options)

        with opened() as before, opened() as alike:
            batches = iter(before)
            found = next(batches).x.tolist()
            (tmp_path / "ids").write_text("\n".join(map(str, second)))
            code, said, _ = call("split", dataset, f"train={tmp_path}/ids", "--overwrite")
            assert (code, "streams that are open keep the old splits" in said) == (0, True)
            with opened() as after:
                assert sorted(x for batch in after for x in batch.x.tolist()) == second
                with pytest.raises(ResumeError, match="how many samples are left out"):
                    after.load_state_dict(before.state_dict())
            (template,) = children(daemon.pid)
            os.kill(children(template)[0], signal.SIGKILL)
            found += [x for batch in batches for x in batch.x.tolist()]
            assert sorted(found) == first
            assert sorted(x for batch in alike for x in batch.x.tolist()) == first


def test_strata_have_the_same_proportions(dataset):
    split(dataset, {"train": 0.9, "val": "rest"}, stratify="kind")
    kinds = [min(n % 10, 3) for n in ids(dataset, "val")]
    assert np.bincount(kinds).tolist() == [1, 1, 1, 7]


def test_classes_as_splits(dataset):
    split_by(dataset, "part")
    assert list(read_manifest(dataset).splits.names) == ["train", "val"]
    assert ids(dataset, "val") == list(range(90, ROWS))


def test_datasets_without_splits_are_written_as_before(dataset):
    assert "splits" not in json.loads((dataset / NAME).read_text())


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "expected at least one NAME=PART, such as train=0.9 val=0.1"),
        (
            {"train": 0.9},
            "train=0.9: the parts leave 0.1 of 1.0 samples in no split; add NAME=",
        ),
        ({"train": 90}, "train=90: the parts leave 10 of 100 samples in no split; add NAME=rest"),
        (
            {"train": 0.9, "val": 0.2},
            "expected positive parts of 1.0 in all, and at most one",
        ),
        ({"train": 90, "val": 20}, "expected positive parts of 100 in all"),
        ({"train": "rest", "val": "rest"}, "at most one 'rest'"),
        ({"train": 0.9, "val": 10}, "train=0.9 val=10: expected fractions or counts, got both"),
        ({"train": 1.0, "val": "rest"}, "val='rest' of so few samples is empty"),
        ({"train": -0.1, "val": "rest"}, "expected positive parts"),
        ({"train": float("nan"), "val": "rest"}, "expected a finite fraction, got nan"),
        ({"train": True}, "True: expected a fraction, a count, 'rest', or ids"),
        ({"train": "most"}, "'most': expected a fraction, a count, 'rest', or ids"),
        ({"my val": 0.5, "x": 0.5}, "'my val': expected a name of letters, digits, - and _"),
        ({"w.npy": 0.5, "x": 0.5}, "'w.npy': expected a name of letters"),
        ({"few": [5, 100]}, "few has sample 100, but the dataset has 100 samples, ids 0 to 99"),
        ({"few": []}, "subset: expected at least one sample id, got none"),
    ],
)
def test_parts_that_cannot_be(dataset, parts, message):
    before = read_manifest(dataset)
    with pytest.raises(UsageError, match=message):
        split(dataset, parts)
    if all(type(part) in (int, float) or part == "rest" for part in parts.values()):
        words = [f"{name}={part}" for name, part in parts.items()]
        code, _, error = call("split", dataset, *words, COLUMNS="9999")
        assert (code, message in error) == (2, True), error
    assert read_manifest(dataset) == before


def test_other_refusals(dataset, tmp_path):
    with pytest.raises(UnknownNameError, match="there is no label 'kin'; the dataset has 'kind'"):
        split(dataset, {"train": 0.5, "val": 0.5}, stratify="kin")
    with pytest.raises(UsageError, match="train=50 val=50: with --stratify expected fractions"):
        split(dataset, {"train": 50, "val": 50}, stratify="kind")
    with pytest.raises(
        UsageError, match="classes of field 'kind' have no names, which splits need"
    ):
        split_by(dataset, "kind")
    with pytest.raises(DatasetError, match="there is no folder"):
        split(tmp_path / "none", {"train": 1.0})
    assert not (tmp_path / "none").exists()
    split(dataset, {"all": 1.0})
    with pytest.raises(UsageError, match=r"already has the splits all; .* pass --overwrite"):
        split(dataset, {"all": 1.0})


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (
            Splits(version=2, names={"a": Split(rows=1, ids="")}),
            "have version 2, but this Stoker",
        ),
        (Splits(names={"a": Split(rows=1, ids="?")}), "split 'a' of the dataset is damaged"),
        (Splits(names={"a": Split(rows=1, ids="AAAA")}), "split 'a' .* damaged: .*bitmap of ids"),
    ],
)
def test_damaged_splits(dataset, splits, message):
    write_manifest(dataset, msgspec.structs.replace(read_manifest(dataset), splits=splits))
    with pytest.raises(DatasetError, match=message):
        ids(dataset, "a")


def test_a_split_that_does_not_fit(dataset):
    split(dataset, {"a": [3, 99]})
    found = read_manifest(dataset).splits
    with pytest.raises(DatasetError, match=r"split 'a' .* damaged: 2 ids up to 99 of 99 samples"):
        split_subset(found, "a", 99)
