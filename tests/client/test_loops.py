"""Loops of a training script: epochs, the last batch, tuples, and arguments from other loaders."""

import importlib
import warnings

import numpy as np
import pytest
from daemons import serving

from stoker.client import Loader
from stoker.dataset import schema, write
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
    """Where a daemon serves the samples."""
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
    with pytest.raises(UsageError, match=r"no output 'lable'; they have image, label, words"):
        load(as_tuple=("image", "lable"))


def test_unpacking_a_batch_names_the_outputs(load):
    with load() as loader:
        with pytest.raises(UsageError, match=r"use batch.image, batch.label, or Loader\(.*as_tup"):
            for _image, _label in loader:
                pass
        batch = next(iter(loader))
        assert "image" in list(batch)
        assert dict(batch).keys() == set(batch)
        assert [name for name in batch if name == "label"] == ["label"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num_workers", "use workers="),
        ("collate_fn", "outputs.pad"),
        ("pin_memory", "device='cuda'"),
        ("persistent_workers", "'persistent_workers': leave it out: workers live as long as the d"),
        ("sampler", "use subset=, weights= and shuffle="),
        ("batchsize", "did you mean 'batch_size'"),
        ("zzz", "has no argument 'zzz'$"),
    ],
)
def test_arguments_of_other_loaders(packed, name, hint):
    with pytest.raises(UsageError, match=hint):
        Loader(packed, pipeline="a:b", batch_size=4, **{name: 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": "keep"}, "last: expected one of 'drop', 'short', 'pad', got 'keep'"),
        ({"last": "drop", "drop_last": False}, "contradicts drop_last=False"),
        ({"last": "short", "rank": 0, "world_size": 2}, "is for one rank, but world_size is 2"),
    ],
)
def test_ends_that_cannot_be(packed, options, message):
    with pytest.raises(UsageError, match=message):
        Loader(packed, pipeline="a:b", batch_size=4, **options)


def test_a_loader_says_what_it_is(load):
    with load(shuffle=False) as loader:
        assert repr(loader).startswith("Loader(14 samples of content:")
        assert (loader.batch_size, loader.num_workers, len(loader.dataset)) == (4, 0, ROWS)
        assert loader.dataset[5]["image"][0, 0].tolist() == [5, 5, 5]
        assert loader.dataset[-1]["label"] == 13 % 3
        with pytest.raises(IndexError, match=r"loader.dataset\[14\]: the dataset has 14 samples"):
            loader.dataset[14]
        assert loader.row(3)["words"].tolist() == [0, 1, 2]
        assert repr(loader.replay(2, 0)).startswith("Replay(id 2, epoch 0, visit 0, view 0, seed 0")
