"""The Law: what a daemon delivers equals the one-process reference, byte for byte.

One table of streams; each is compared through the interpreter, 1 and 3 workers (some 8), 1, 2 and
3 ranks, several prefetch depths, after a worker was killed in mid-batch, and after a resume at any
step with another rank count. A later feature adds its stream to the table.
"""

import functools
import itertools
import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import law_pipelines
import numpy as np
import pytest
from daemons import children, state
from law_rig import serving
from loading import grouped

from stoker.client import Buckets, LengthBuckets, Loader
from stoker.dataset.format.manifest import read_manifest
from stoker.dataset.format.manifest_splits import split_subset
from stoker.dataset.packing.splitting import split
from stoker.protocol.errors import StokerError, UsageError
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import make_spec, reference_batches

pytestmark = pytest.mark.as_a_user

EPOCHS = range(2)
DEADLINE_S = 60.0
STREAMS = {
    "crops": {"pipeline": "crops", "batch_size": 8, "seed": 5},
    "training": {"pipeline": "training", "batch_size": 6, "seed": 2**64 - 1},
    "padded": {"pipeline": "padded", "batch_size": 10, "seed": 0, "tail": "pad"},
    "evaluation": {"pipeline": "evaluation", "batch_size": 9, "shuffle": False, "tail": "pad"},
    "views": {"pipeline": "crops", "batch_size": 5, "seed": 9, "views": 3},
    "scheduled": {"pipeline": "scheduled", "batch_size": 7, "seed": 11, "total_epochs": 2},
    "boxes": {"pipeline": "detection", "dataset": "boxed", "batch_size": 7, "tail": "pad"},
    "buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "seed": 12,
        "total_epochs": 3,
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "pixels": {
        "pipeline": "fitted",
        "batch_size": 3,
        "total_epochs": 2,
        "tail": "pad",
        "views": 2,
        "buckets": Buckets(
            max_area=48 * 48, divisor=16, max_side=64, leftovers="merge", constant="pixels"
        ),
    },
    "mixed buckets": {
        "pipeline": "fitted_mixed",
        "batch_size": 9,
        "seed": 6,
        "buckets": Buckets(
            max_area=32 * 32,
            divisor=16,
            max_side=48,
            leftovers="merge",
            constant="pixels",
            max_rows=12,
        ),
    },
    "forms in buckets": {
        "pipeline": "fitted_forms",
        "dataset": "boxed",
        "batch_size": 3,
        "seed": 8,
        "tail": "pad",
        "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48),
    },
    "lengths": {
        "pipeline": "sentences",
        "dataset": "boxed",
        "batch_size": 4,
        "seed": 9,
        "views": 2,
        "buckets": LengthBuckets(
            field="words",
            multiple=2,
            max_length=5,
            longer="truncate",
            constant="tokens",
            max_rows=7,
        ),
    },
    "forms": {
        "pipeline": "varying",
        "dataset": "boxed",
        "batch_size": 6,
        "seed": 4,
        "views": 2,
        "tail": "pad",
        "total_epochs": 2,
    },
    "frozen": {
        "pipeline": "training",
        "batch_size": 7,
        "seed": 3,
        "freeze": {"color_jitter": 7, "horizontal_flip": "epoch"},
    },
    "folded": {"pipeline": "folded", "batch_size": 9, "seed": 4, "tail": "pad"},
    "mixed": {"pipeline": "mixed", "batch_size": 7, "seed": 2, "views": 2, "tail": "pad"},
    "mosaics": {"pipeline": "mosaics", "dataset": "boxed", "batch_size": 9, "seed": 1},
    "pasted": {"pipeline": "pasted", "batch_size": 9, "seed": 4},
    "tars": {"pipeline": "crops", "dataset": "tars", "batch_size": 7, "seed": 6, "tail": "pad"},
    "arrows": {"pipeline": "crops", "dataset": "arrows", "batch_size": 6, "seed": 7, "views": 2},
    "live": {"pipeline": "mixed", "dataset": "live", "batch_size": 9, "seed": 8, "tail": "pad"},
    "excluded": {
        "pipeline": "mosaics",
        "dataset": "boxed",
        "batch_size": 7,
        "seed": 1,
        "views": 2,
        "tail": "pad",
        "exclude": [36, 4, 5, 0, 11, 30, 17],
    },
    "weighted": {
        "pipeline": "mosaics",
        "dataset": "boxed",
        "batch_size": 7,
        "seed": 3,
        "tail": "pad",
        "exclude": [36, 4],
        "weights": "weight",
    },
    "weighted classes": {
        "pipeline": "mixed",
        "batch_size": 6,
        "seed": 4,
        "views": 2,
        "weights": {"day": 1, "night": 2.5},
    },
    "blocks": {
        "pipeline": "crops",
        "batch_size": 5,
        "seed": 6,
        "shuffle_block_size": 8,
        "tail": "pad",
    },
    "own order": {
        "pipeline": "mixed",
        "batch_size": 7,
        "seed": 8,
        "shuffle_seed": 5,
        "shuffle_block_size": 9,
        "weights": {"day": 1, "night": 2},
    },
    "own order of buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "seed": 8,
        "shuffle_seed": 5,
        "total_epochs": 2,
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "weighted blocks": {
        "pipeline": "crops",
        "batch_size": 5,
        "seed": 7,
        "shuffle_block_size": 6,
        "weights": {"day": 1, "night": 3},
    },
    "weighted buckets in blocks": {
        "pipeline": "fitted_mixed",
        "batch_size": 5,
        "seed": 10,
        "shuffle_block_size": 4,
        "exclude": [3, 8],
        "weights": {"day": 1, "night": 3},
        "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48, leftovers="merge"),
    },
    "most options": {
        "pipeline": "scheduled",
        "batch_size": 7,
        "seed": 3,
        "views": 2,
        "tail": "pad",
        "on_error": "mask",
        "total_epochs": 2,
        "freeze": {"random_resized_crop": 7},
        "shuffle_seed": 5,
        "shuffle_block_size": 6,
        "weights": {"day": 1, "night": 2},
        "exclude": [3, 9],
    },
    "most options in order": {
        "pipeline": "scheduled",
        "batch_size": 9,
        "shuffle": False,
        "on_error": "replace",
        "total_epochs": 2,
        "freeze": {"random_resized_crop": "epoch"},
    },
    "most options of buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "seed": 3,
        "on_error": "replace",
        "total_epochs": 2,
        "freeze": {"fit_bucket": 7},
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "excluded_buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "total_epochs": 2,
        "exclude": [1, 2, 20, 36],
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
}
RESUMED = (
    "crops",
    "padded",
    "views",
    "scheduled",
    "boxes",
    "mixed",
    "buckets",
    "pixels",
    "forms in buckets",
    "lengths",
    "forms",
    "excluded",
    "weighted",
    "weighted classes",
    "blocks",
    "weighted blocks",
    "weighted buckets in blocks",
    "excluded_buckets",
    "live",
)
"""Streams that are resumed anywhere, with one, two and three ranks."""


def _spec(name: str) -> dict:
    """The stream as fields of StreamSpec."""
    others = ("pipeline", "dataset")
    fields = {key: value for key, value in STREAMS[name].items() if key not in others}
    fields["order"] = OrderSpec(
        shuffle=bool(fields.pop("shuffle", True)),
        block=fields.pop("shuffle_block_size", None),
        seed=fields.pop("shuffle_seed", None),
    )
    return fields


def _options(name: str) -> dict:
    """The stream as arguments of Loader."""
    options = {"dataset": "photos", **STREAMS[name]}
    options["global_batch_size"] = options.pop("batch_size")
    options["last"] = options.pop("tail", "drop")
    return options


@pytest.fixture(name="daemon")
def daemon_of_all(daemon, datasets):
    """A daemon that serves all datasets."""
    return functools.partial(daemon, datasets=datasets)


@pytest.fixture(scope="module")
def address(tmp_path_factory, datasets):
    """Address of a daemon with three workers that serves all datasets; tests kill nothing in it."""
    with serving(tmp_path_factory.mktemp("shared"), datasets, workers=3) as running:
        yield running.address


@pytest.fixture(scope="module")
def expected(datasets: dict[str, Path], law) -> dict[str, list[str]]:
    """Digests of every stream of the table, by the interpreter in this process."""
    return {
        name: law.reference(
            datasets[STREAMS[name].get("dataset", "photos")],
            getattr(law_pipelines, STREAMS[name]["pipeline"]).graph(),
            EPOCHS,
            **_spec(name),
        )
        for name in STREAMS
    }


def test_reference_differs_between_streams_epochs_and_steps(expected):
    every = [digest for digests in expected.values() for digest in digests]
    assert len(every) > 40
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("name", ["excluded", "excluded_buckets"])
def test_no_row_shows_an_excluded_sample(datasets, name):
    """The rows of an epoch show all others; with buckets some are carried on."""
    path = datasets[STREAMS[name].get("dataset", "photos")]
    graph = getattr(law_pipelines, STREAMS[name]["pipeline"]).graph()
    given = {key: STREAMS[name].get(key) for key in ("buckets", "exclude")}
    spec = make_spec(path, graph, **_spec(name))
    seen = [
        number
        for _, batch in reference_batches(path, graph, spec, **given)
        for number in batch["index"].tolist()
    ]
    left = set(range(37)) - set(STREAMS[name]["exclude"])
    assert set(seen) - {-1} == left if name == "excluded" else set(seen) < left


@pytest.mark.parametrize("name", ["excluded", "excluded_buckets"])
def test_a_subset_is_the_stream_without_all_others(address, law, expected, name, tmp_path):
    """As ids, and as a file from which an exclude list takes one more."""
    given = _options(name)
    left = sorted(set(range(37)) - set(given.pop("exclude")))
    assert law.delivered(address, EPOCHS, 2, subset=left[::-1], **given) == expected[name]
    file = tmp_path / "train.txt"
    file.write_text("\n".join(map(str, [*left, 36])))
    assert law.delivered(address, EPOCHS, subset=file, exclude=[36], **given) == expected[name]


@pytest.mark.slow
def test_a_split_or_a_condition_is_the_subset_of_its_ids(daemon, dataset, law, tmp_path):
    """Of a copy of the dataset; `excluded` samples leave the split too."""
    path = shutil.copytree(dataset, tmp_path / "photos")
    split(path, {"train": 0.7, "val": "rest"}, seed=4)
    ids = split_subset(read_manifest(path).splits, "train", 37).ids.tolist()
    given = {"pipeline": "crops", "global_batch_size": 4, "seed": 5, "dataset": "photos"}
    with daemon(1, datasets={"photos": path}) as running:
        got = law.delivered(running.address, EPOCHS, subset="train", exclude=ids[:2], **given)
        same = law.delivered(running.address, EPOCHS, 2, subset=ids[2:], **given)
        assert got == same
        with Loader(running.address, **grouped(subset="val", **given)) as loader:
            assert len(loader) == (37 - len(ids)) // 4
            shown = int(next(iter(loader)).index[0])
            assert loader.replay(shown, 0).id == shown
        condition = "id >= 5 and split == 'train' and image.width >= 1"
        got = law.delivered(running.address, EPOCHS, subset=condition, **given)
        same = law.delivered(
            running.address, EPOCHS, 2, subset=[number for number in ids if number >= 5], **given
        )
        assert got == same
        for subset, why in [
            ("vall", "there is no split 'vall', did you mean 'val'"),
            ("split == 'vall'", "there is no split 'vall', did you mean 'val'"),
            ("id < 0", "the condition 'id < 0' holds for no sample of the dataset"),
        ]:
            with pytest.raises(StokerError, match=why):
                Loader(running.address, subset=subset, **given)


@pytest.mark.slow
def test_a_repeated_sample_is_replayed_with_its_own_draws(address):
    """Of a weighted stream, `drawn_as` has the visit of every row."""
    with Loader(
        address, **grouped(device="numpy", verify=True, **_options("weighted classes"))
    ) as loader:
        batch = next(iter(loader))
        visits = batch["drawn_as"][:, 1]
        row = int(visits.argmax())
        assert visits[row] == 1
        replayed = loader.replay_row(batch, row)
        assert replayed.visit == 1
        for value in replayed.outputs:
            assert np.array_equal(value.array, batch[value.name][row])
        with pytest.raises(UsageError, match="expected a visit below 2, got 2: it comes 2 times"):
            loader.replay(int(batch.index[row]), 0, visit=2)


def test_batches_of_a_block_shuffle_read_neighboring_samples(address):
    """A batch no longer than a block has two blocks at most; their order differs by epoch."""
    given = {**_options("blocks"), "last": "short"}
    orders = []
    with Loader(address, **grouped(device="numpy", **given)) as loader:
        for _ in EPOCHS:
            blocks = [np.unique(batch.index // 8) for batch in loader]
            assert max(map(len, blocks)) <= 2
            turns = [block for step in blocks for block in step.tolist()]
            orders.append(list(dict.fromkeys(turns)))
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(5))
    assert orders[0] != orders[1]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "names"), [(1, list(STREAMS)), (8, ["padded", "views"])])
def test_any_number_of_workers(daemon, law, expected, workers, names):
    with daemon(workers) as running:
        for name in names:
            got = law.delivered(running.address, EPOCHS, prefetch=None, **_options(name))
            assert got == expected[name], name


@pytest.mark.slow
def test_any_number_of_ranks_and_any_prefetch(address, law, expected):
    """Of three workers; what is resumed with three ranks needs no more of them here.

    One rank with the daemon's choice of prefetch is `test_any_number_of_workers`.
    """
    for name in STREAMS:
        for ranks, prefetch in ((2, 1),) if name in RESUMED else ((2, 1), (3, 3)):
            got = law.delivered(address, EPOCHS, ranks, prefetch=prefetch, **_options(name))
            assert got == expected[name], (name, ranks, prefetch)


@pytest.mark.slow
def test_ranks_at_the_same_time(address, law, expected):
    parts: dict[int, list] = {}

    def train(rank: int) -> None:
        parts[rank] = law.one_rank(address, EPOCHS, rank=rank, world_size=3, **_options("training"))

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert law.merged([parts[rank] for rank in range(3)]) == expected["training"]


@pytest.mark.as_a_user(False)  # a daemon for each, which only has to die
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "points"),
    [
        *itertools.product(
            ["crops", "views", "boxes", "mixed", "buckets", "lengths", "forms"],
            [("worker.row", "worker.row_done", "worker.chunk_done")],
        ),
        *((name, ("worker.row",)) for name in ("excluded", "weighted", "tars", "arrows")),
        ("live", ("worker.row",)),
    ],
)
def test_workers_that_die_at_points(daemon, law, expected, name, points):
    """Two workers die at the first point, those that take their places at the next, and so on."""
    twice = [point for point in points for _ in range(2)]
    plan = [f"{point}:kill:2:{worker}" for worker, point in enumerate(twice, 1)]
    with daemon(2, ",".join(plan)) as running:
        got = law.delivered(running.address, EPOCHS, prefetch=None, **_options(name))
        assert got == expected[name]
        assert running.log.read_text().count("SIGKILL") == len(plan)


def _workers(daemon_pid: int) -> list[int]:
    (template,) = children(daemon_pid)
    return children(template)


def _wait_for(what, condition):
    pause, deadline = threading.Event(), time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {DEADLINE_S} s for {what}"
        pause.wait(0.005)
    return found


@pytest.mark.slow
def test_worker_killed_in_mid_batch(daemon, law, expected):
    """A worker stops in the middle of a row and is then killed from outside."""
    with daemon(2, "worker.row:stop:4:1,worker.row:stop:4:2") as running:
        got: list[str] = []
        reader = threading.Thread(
            target=lambda: got.extend(law.delivered(running.address, EPOCHS, **_options("crops")))
        )
        reader.start()
        killed = []

        def kill_stopped() -> bool:
            for pid in _workers(running.pid):
                if state(pid) == "T":
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
            return not reader.is_alive()

        _wait_for("the end of the stream", kill_stopped)
        assert got == expected["crops"]
        assert killed
        assert not set(killed) & set(_workers(running.pid))


@pytest.mark.slow
def test_template_killed(daemon, law, expected):
    """The parent of all workers dies, and they with it: everything is started again."""
    with daemon(2) as running:
        with Loader(
            running.address, **grouped(device="numpy", prefetch=2, **_options("training"))
        ) as loader:
            batches = iter(loader)
            first = next(batches)
            assert first.step == 0
            os.kill(children(running.pid)[0], signal.SIGKILL)
            rest = [batch.step for batch in batches]
            assert rest == list(range(1, len(loader)))
        assert (
            law.delivered(running.address, EPOCHS, **_options("training")) == (expected["training"])
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_resume_anywhere_with_another_rank_count(address, law, expected, name):
    """One rank, then three, two and one again, each from the cursor of those before."""
    rng, every = random.Random(name), len(expected[name])
    stops = [0, *sorted(rng.sample(range(1, every), 3)), every]
    state = None
    for ranks, (start, stop) in zip((1, 3, 2, 1), itertools.pairwise(stops), strict=True):
        got, state = law.some(address, stop - start, ranks, state, **_options(name))
        assert got == expected[name][start:stop]


@pytest.mark.slow
def test_two_jobs_do_not_disturb_each_other(address, law, expected):
    with Loader(address, **grouped(device="numpy", **_options("crops"))) as one:
        steps = iter(one)
        held = [next(steps)]
        assert law.delivered(address, EPOCHS, **_options("padded")) == expected["padded"]
        held.append(next(steps))
        assert [batch.step for batch in held] == [0, 1]
