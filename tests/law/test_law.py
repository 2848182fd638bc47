"""The Law: what a daemon delivers equals the one-process reference, byte for byte.

`law_streams` has one table of streams; each is compared with the interpreter through 1 and 3
workers (some 8), 1, 2 and 3 ranks, several prefetch depths, and after a resume at any step with
another rank count; one of each kind after workers were killed, and some with both decoders of
JPEGs. A later feature adds its stream.
"""

import functools
import os
import random
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import law_pipelines
import numpy as np
import pytest
from daemons import children, state
from law_rig import serving
from law_streams import EPOCHS, SAMPLES, STREAMS, expected_digests, options
from loading import digest, grouped

from stoker.client import Loader
from stoker.dataset.format.manifest import read_manifest
from stoker.dataset.format.manifest_splits import split_subset
from stoker.protocol.errors import StokerError, UsageError

pytestmark = pytest.mark.as_a_user

DEADLINE_S = 60.0
KILLED = (
    "excluded", "weighted", "tars", "arrows", "planes", "live", "boxes", "views", "lengths",
    "own pipelines", "mixture in buckets", "clips", "clips of a mixture in buckets",
)  # fmt: skip
"""Streams whose workers are killed from outside; others die at points inside of a row."""


@pytest.fixture(name="daemon")
def daemon_of_all(daemon, every):
    """A daemon that serves all datasets."""
    return functools.partial(daemon, datasets=every)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory, every):
    """A daemon with two workers, whose processes are killed."""
    with serving(tmp_path_factory.mktemp("mortal"), every, workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def lone(tmp_path_factory, every):
    """Address of a daemon with one worker."""
    with serving(tmp_path_factory.mktemp("lone"), every, workers=1) as running:
        yield running.address


class Expected(dict[str, list[str]]):
    """Digests of the streams of the table, by the interpreter in this process, once needed."""

    def __init__(self, every: Mapping[str, Path]) -> None:
        self._every = every

    def __missing__(self, name: str) -> list[str]:
        self[name] = expected_digests(self._every, name)
        return self[name]


@pytest.fixture(scope="module")
def expected(every) -> Expected:
    return Expected(every)


@pytest.mark.parametrize("name", ["excluded", "excluded_buckets"])
def test_no_row_shows_an_excluded_sample(address, name):
    """The rows of an epoch show all others; with buckets some are carried on."""
    with Loader(address, **grouped(device="numpy", **options(name))) as loader:
        seen = {number for batch in loader for number in batch.index[batch.valid].tolist()}
    left = set(range(SAMPLES)) - set(STREAMS[name]["exclude"])
    assert seen == left if name == "excluded" else seen < left


@pytest.mark.parametrize("name", ["excluded", "excluded_buckets"])
def test_a_subset_is_the_stream_without_all_others(address, law, expected, name, tmp_path):
    """As ids, and as a file from which an exclude list takes one more."""
    given = options(name)
    left = sorted(set(range(37)) - set(given.pop("exclude")))
    assert law.delivered(address, EPOCHS, 2, subset=left[::-1], **given) == expected[name]
    file = tmp_path / "train.txt"
    file.write_text("\n".join(map(str, [*left, 36])))
    assert law.delivered(address, EPOCHS, subset=file, exclude=[36], **given) == expected[name]


@pytest.mark.slow
def test_a_split_or_a_condition_is_the_subset_of_its_ids(address, every, law):
    """Of a copy of the dataset; `excluded` samples leave the split too."""
    ids = split_subset(read_manifest(every["parted"]).splits, "train", SAMPLES).ids.tolist()
    given = {"pipeline": "crops", "global_batch_size": 4, "seed": 5, "dataset": "parted"}
    got = law.delivered(address, EPOCHS, subset="train", exclude=ids[:2], **given)
    same = law.delivered(address, EPOCHS, 2, subset=ids[2:], **given)
    assert got == same
    with Loader(address, **grouped(subset="val", **given)) as loader:
        assert len(loader) == (SAMPLES - len(ids)) // 4
        shown = int(next(iter(loader)).index[0])
        assert loader.replay(shown, 0).id == shown
    condition = "id >= 5 and split == 'train' and image.width >= 1"
    got = law.delivered(address, EPOCHS, subset=condition, **given)
    same = law.delivered(
        address, EPOCHS, 2, subset=[number for number in ids if number >= 5], **given
    )
    assert got == same
    for subset, why in [
        ("vall", "there is no split 'vall', did you mean 'val'"),
        ("split == 'vall'", "there is no split 'vall', did you mean 'val'"),
        ("id < 0", "the condition 'id < 0' holds for no sample of the dataset"),
    ]:
        with pytest.raises(StokerError, match=why):
            Loader(address, subset=subset, **given)


@pytest.mark.slow
def test_a_repeated_sample_is_replayed_with_its_own_draws(address):
    """Of a weighted stream, `drawn_as` has the visit of every row."""
    with Loader(
        address, **grouped(device="numpy", verify=True, **options("weighted classes"))
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
    given = {**options("blocks"), "last": "short"}
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
@pytest.mark.parametrize("name", STREAMS)
def test_one_worker(lone, law, expected, name):
    """With the daemon's choice of prefetch; three workers are `test_resume_anywhere...`."""
    assert law.delivered(lone, EPOCHS, prefetch=None, **options(name)) == expected[name]


@pytest.mark.slow
def test_many_workers(daemon, law, expected):
    with daemon(8) as running:
        for name in ("padded", "views"):
            assert law.delivered(running.address, EPOCHS, **options(name)) == expected[name]


@pytest.mark.slow
def test_both_decoders_of_jpegs(tmp_path_factory, every, law, expected):
    """Boxes, whole images, mixes and damage by Stoker's own; other daemons use libjpeg-turbo."""
    with serving(tmp_path_factory.mktemp("decoder"), every, workers=2, jpeg="stoker") as running:
        for name in ("crops", "padded", "evaluation", "mixed", "planes"):
            assert law.delivered(running.address, EPOCHS, **options(name)) == expected[name]
        for name in ("crops", "mixed"):
            graph, given = getattr(law_pipelines, name).graph(), {"seed": 3, "on_error": "mask"}
            wanted = law.reference(every["damaged"], graph, EPOCHS, batch_size=8, **given)
            given |= {"pipeline": name, "dataset": "damaged", "global_batch_size": 8}
            assert law.delivered(running.address, EPOCHS, **given) == wanted


@pytest.mark.slow
def test_bit_planes_have_the_stream_of_their_jpegs(expected):
    """Which libjpeg-turbo decodes."""
    assert expected["planes"] == expected["crops"]


@pytest.mark.slow
def test_ranks_at_the_same_time(address, law, expected):
    parts: dict[int, list] = {}

    def train(rank: int) -> None:
        parts[rank] = law.one_rank(address, EPOCHS, rank=rank, world_size=3, **options("training"))

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert law.merged([parts[rank] for rank in range(3)]) == expected["training"]


@pytest.mark.as_a_user(False)  # a daemon for each, which only has to die
@pytest.mark.slow
@pytest.mark.parametrize("name", ["crops", "mixed", "buckets", "forms"])
def test_workers_that_die_at_points(daemon, law, expected, name):
    """Two workers die at the first point, those that take their places at the next, and so on."""
    points = ("worker.row", "worker.row_done", "worker.chunk_done")
    twice = [point for point in points for _ in range(2)]
    plan = [f"{point}:kill:2:{worker}" for worker, point in enumerate(twice, 1)]
    with daemon(2, ",".join(plan)) as running:
        got = law.delivered(running.address, EPOCHS, prefetch=None, **options(name))
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
            target=lambda: got.extend(law.delivered(running.address, EPOCHS, **options("crops")))
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
@pytest.mark.parametrize("name", KILLED)
def test_workers_killed_from_outside(mortal, law, expected, name):
    """Both of them, while batches are under way."""
    got = []
    with Loader(mortal.address, **grouped(device="numpy", prefetch=3, **options(name))) as loader:
        for _ in EPOCHS:
            for batch in loader:
                got.append(digest(batch))
                if len(got) == 2:
                    for pid in _workers(mortal.pid):
                        os.kill(pid, signal.SIGKILL)
    assert got == expected[name]


@pytest.mark.slow
def test_template_killed(mortal, law, expected):
    """The parent of all workers dies, and they with it: everything is started again."""
    got = []
    with Loader(mortal.address, **grouped(device="numpy", **options("training"))) as loader:
        for _ in EPOCHS:
            for batch in loader:
                got.append(digest(batch))
                if len(got) == 1:
                    os.kill(children(mortal.pid)[0], signal.SIGKILL)
    assert got == expected["training"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_resume_anywhere_with_another_rank_count(address, law, expected, name):
    """Three ranks, then two from their cursor; each with a prefetch of its own."""
    middle = random.Random(name).randrange(1, len(expected[name]))
    ranks = min(3, STREAMS[name]["batch_size"])
    first, state = law.some(address, middle, ranks, None, prefetch=1, **options(name))
    rest, _ = law.some(address, len(expected[name]) - middle, 2, state, **options(name))
    assert first == expected[name][:middle]
    assert rest == expected[name][middle:]


@pytest.mark.slow
def test_two_jobs_do_not_disturb_each_other(address, law, expected):
    with Loader(address, **grouped(device="numpy", **options("crops"))) as one:
        steps = iter(one)
        held = [next(steps)]
        assert law.delivered(address, EPOCHS, **options("padded")) == expected["padded"]
        held.append(next(steps))
        assert [batch.step for batch in held] == [0, 1]


@pytest.mark.slow
def test_digests_differ_between_streams_epochs_and_steps(expected):
    """The last test, as it needs the digests of all streams."""
    others = [name for name in STREAMS if name != "planes"]  # its batches are those of `crops`
    every = [digest for name in others for digest in expected[name]]
    assert len(set(every)) == len(every)
