"""Loops of a training script: epochs, the last batch, tuples, and arguments from other loaders."""

import copy
import importlib
import json
import warnings

import numpy as np
import pytest
from daemons import serving

from stoker.client import Batch, Buckets, Connection, LengthBuckets, Loader
from stoker.dataset import schema, split, write
from stoker.protocol.errors import UsageError

ROWS = 14


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """14 samples: a tiny image, a label, a ragged list of numbers."""
    dest = tmp_path_factory.mktemp("loops") / "packed"
    rows = [
        {
            "image": np.full((4, 6, 3), n, np.uint8),
            "label": n % 3,
            "words": np.arange(n, dtype="i4"),
        }
        for n in range(ROWS)
    ]
    fields = [schema.image(encoding="raw"), schema.label(), schema.array("words", "int32", (None,))]
    write(dest, fields, rows)
    split(dest, {"odd": list(range(1, ROWS, 2)), "even": list(range(0, ROWS, 2))})
    return dest


PIPELINES = """
from stoker.pipeline import outputs, pipeline

@pipeline
def train(sample):
    words = outputs.ragged(sample.words)
    return {"image": sample.image, "label": sample.label, "words": words}

@pipeline
def scheduled(sample, ctx):
    return {"label": sample.label, "progress": ctx.progress}
"""


@pytest.fixture(scope="module")
def address(packed, tmp_path_factory):
    """Address of a daemon that serves the samples."""
    folder = tmp_path_factory.mktemp("loops-daemon")
    with serving(folder, "--dataset", f"tiny={packed}", "--workers", "1") as running:
        yield running.address


@pytest.fixture(scope="module")
def load(address, tmp_path_factory):
    """load(**options) -> a Loader."""
    folder = tmp_path_factory.mktemp("loops-code")
    (folder / "loop_pipelines.py").write_text(PIPELINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        made = vars(importlib.import_module("loop_pipelines"))

        def make(pipe="train", **options):
            given = {"batch_size": 4, "device": "numpy"} | options
            return Loader(address, pipeline=made[pipe], **given)

        yield make


def ids(loader):
    return [batch.index.tolist() for batch in loader]


def test_an_iterator_that_nobody_reads_uses_up_no_epoch(load):
    """Lightning calls iter() once before training, for example."""
    with load() as loader:
        iter(loader)
        unread = iter(loader)
        assert loader.state_dict()["epoch"] == 0
        assert [batch.epoch for batch in loader] == [0, 0, 0]
        assert [batch.epoch for batch in loader] == [1, 1, 1]
        assert next(unread).epoch == 2


def test_a_second_iterator_ends_the_first_when_it_begins(load):
    with load() as loader:
        first, second = iter(loader), iter(loader)
        assert next(first).epoch == 0
        assert next(second).epoch == 1
        with pytest.raises(Exception, match="iterated again"):
            next(first)


def test_set_epoch_counts_until_the_first_batch(load):
    with load() as loader:
        iterator = iter(loader)
        loader.set_epoch(7)
        assert next(iterator).epoch == 7


def test_past_total_epochs_warns(load):
    with load("scheduled", total_epochs=1) as loader:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(loader)
        with pytest.warns(UserWarning, match=r"epoch 1 is past the last one of total_epochs=1"):
            list(loader)


def test_every_sample_once_with_a_short_last_batch(load):
    for options in ({"drop_last": False}, {"last": "short"}):
        with load(shuffle=False, **options) as loader:
            assert len(loader) == 4
            batches = list(loader)
            assert [b.index.tolist() for b in batches] == [
                [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13],
            ]  # fmt: skip
            assert batches[-1].image.shape == (2, 4, 6, 3)
            assert batches[-1].valid.tolist() == [True, True]
            assert [row.tolist() for row in batches[-1].words] == [[*range(12)], [*range(13)]]
            right = sum((batch.label == 0).sum() for batch in batches)
            assert right == len([n for n in range(ROWS) if n % 3 == 0])


def test_dropped_and_padded_ends(load):
    with load(shuffle=False) as loader:
        assert [number for batch in ids(loader) for number in batch] == [*range(12)]
    with load(shuffle=False, last="pad") as loader:
        ends = [(batch.index.tolist(), batch.valid.tolist()) for batch in loader]
        assert ends[-1] == ([12, 13, -1, -1], [True, True, False, False])


def test_padding_warns_once_if_valid_is_not_read(load):
    with load(last="pad") as loader:
        ids(loader)
        with pytest.warns(UserWarning, match="2 of 4 rows are samples, but the loop did not read"):
            ids(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ids(loader)
    loader = load(last="pad")
    ids(loader)
    with pytest.warns(UserWarning, match="the last batch of epoch 0 is padded"):
        loader.close()
    with load(last="pad") as loader, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(int(batch["valid"].sum()) for batch in list(loader)) == ROWS


def rebuilt(batch, change=lambda value: value):
    """As frameworks convert a batch."""
    return type(batch)({name: change(value) for name, value in batch.items()})


def test_padding_warns_if_only_a_framework_read_valid(load):
    """It reads all entries to make another batch, from which the loop reads what it needs."""
    loader = load(last="pad")
    for batch in loader:
        again = rebuilt(rebuilt(batch), copy.copy)
        assert len(again["image"]) == 4
    with pytest.warns(UserWarning, match="2 of 4 rows are samples, but the loop did not read"):
        loader.close()


@pytest.mark.parametrize(
    "read",
    [
        lambda batch: rebuilt(batch).valid,
        lambda batch: rebuilt(rebuilt(batch, copy.copy), copy.copy)["valid"],
        lambda batch: (batch.valid, rebuilt(batch)),
        lambda batch: copy.copy(rebuilt(batch)).valid,
        lambda batch: Batch(batch).valid,
        lambda batch: dict(batch.items()),
        lambda batch: list(batch.values()),
        dict,
    ],
)
def test_padding_does_not_warn_if_the_loop_may_have_read_valid(load, read):
    with warnings.catch_warnings(), load(last="pad") as loader:
        warnings.simplefilter("error")
        for batch in loader:
            read(batch)


def test_evaluation_over_ranks_counts_every_sample_once(load):
    """The accuracy over ranks is that of a plain loop over the data."""
    for world_size in (1, 2, 3):
        seen: list[int] = []
        for rank in range(world_size):
            options = {"rank": rank, "world_size": world_size, "batch_size": 2}
            with load("train", last="pad", shuffle=False, **options) as loader:
                for batch in loader:
                    seen += batch.index[batch.valid].tolist()
        assert sorted(seen) == [*range(ROWS)]


def test_a_loader_for_evaluation(load, address):
    scheduled = importlib.import_module("loop_pipelines").scheduled
    with Loader.for_evaluation(
        address, pipeline=scheduled, batch_size=4, device="numpy", total_epochs=2
    ) as loader:
        first = [(b.index.tolist(), b.epoch, b.progress.tolist()) for b in loader]
        assert [number for index, _, _ in first for number in index] == [*range(ROWS)]
        assert [(b.index.tolist(), b.epoch, b.progress.tolist()) for b in loader] == first
    for name, value in (("shuffle", True), ("weights", [1] * ROWS), ("mix", {"a": 1})):
        with pytest.raises(UsageError, match=f"for_evaluation: {name}= cannot be chosen"):
            Loader.for_evaluation(address, pipeline=scheduled, batch_size=4, **{name: value})


def test_tuples(load):
    with load(as_tuple=("image", "label"), shuffle=False) as loader:
        for image, label in loader:
            assert image.shape == (4, 4, 6, 3)
            assert (image[:, 0, 0, 0] % 3 == label).all()


def test_unpacking_a_batch_names_the_outputs(load):
    with load() as loader:
        with pytest.raises(UsageError, match=r"use batch.image, batch.label, or Loader\(.*as_tup"):
            for _image, _label in loader:
                pass
        batch = next(iter(loader))
        assert "image" in list(batch)
        assert dict(batch).keys() == set(batch)
        assert [name for name in batch if name == "label"] == ["label"]


def test_a_loader_says_what_it_is(load):
    with load(shuffle=False) as loader:
        assert repr(loader).startswith("Loader(14 samples of content:")
        assert (loader.batch_size, loader.num_workers, len(loader.dataset)) == (4, 0, ROWS)
        assert loader.dataset[5]["image"][0, 0].tolist() == [5, 5, 5]
        assert loader.dataset[-1]["label"] == 13 % 3
        with pytest.raises(IndexError, match=r"dataset\[14\]: expected a place in Samples"):
            loader.dataset[14]
        assert loader.row(3)["words"].tolist() == [0, 1, 2]
        assert repr(loader.replay(2, 0)).startswith("Replay(id 2, epoch 0, visit 0, view 0, seed 0")


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"exclude": [0, 1, 12]}, [n for n in range(ROWS) if n not in (0, 1, 12)]),
        ({"exclude": (n for n in range(3))}, range(3, ROWS)),
        ({"subset": map(int, "975")}, [5, 7, 9]),
        ({"subset": filter(None, range(9)), "exclude": iter([4])}, [1, 2, 3, 5, 6, 7, 8]),
        ({"subset": "odd", "exclude": [3]}, [1, 5, 7, 9, 11, 13]),
        ({"weights": (n % 2 for n in range(ROWS))}, range(1, ROWS, 2)),
        ({"weights": "label"}, [n for n in range(ROWS) if n % 3]),
    ],
)
def test_the_dataset_of_a_loader_is_the_samples_that_it_visits(load, options, left):
    """Iterators are read once; the samples are counted as torch's Subset counts them."""
    with load(batch_size=1, **options) as loader:
        samples = loader.dataset
        assert len(samples) == len(left)
        assert repr(loader).startswith(f"Loader({len(left)} of the {ROWS} samples of content:")
        assert repr(samples).startswith(f"Samples({len(left)} of the {ROWS} samples of content:")
        assert [int(samples[place]["image"][0, 0, 0]) for place in (0, -1)] == [left[0], left[-1]]
        with pytest.raises(IndexError, match="expected a place in Samples"):
            samples[len(left)]
        assert {int(i) for batch in loader for i in batch.index} <= set(left)


def test_numbers_of_numpy_are_taken_as_those_of_python(load, packed):
    whole = np.int32
    with load(batch_size=whole(2), seed=np.uint64(7), rank=whole(1), world_size=whole(2)) as loader:
        loader.set_epoch(whole(3))
        loader.skip(np.int8(1))
        batch = next(iter(loader))
        assert (batch.epoch, batch.step) == (3, 1)
        json.dumps(loader.state_dict())
    limits = Connection(timeout_s=np.float32(60))
    asked = {"batch_size": np.int64(2), "workers": np.int64(1), "connection": limits}
    with Loader(str(packed), pipeline="loop_pipelines:train", **asked) as loader:
        assert loader.batch_size == 2
    for buckets, same in (
        (Buckets(max_area=np.int64(4096), divisor=np.uint8(8)), Buckets(max_area=4096, divisor=8)),
        (Buckets(resize=np.bool_(False)), Buckets(resize=False)),
        (
            LengthBuckets(field="words", bounds=np.array([4, 16])),
            LengthBuckets(field="words", bounds=(4, 16)),
        ),
    ):
        assert buckets == same
        assert json.dumps(buckets.to_data()) == json.dumps(same.to_data())
