"""10^12 samples: order, ranks, cursor and shuffling through a daemon, anywhere in any epoch.

Nothing here could end if time or memory grew with the number of samples.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from daemons import serving

from stoker.client import Loader
from stoker.order.compose import dataset_order
from stoker.protocol.cursor import MAX_BYTES

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
HERE = Path(__file__).parent
ROWS, BATCH = 10**12, 256
STEPS = ROWS // BATCH
PLACES = [(0, 0), (0, STEPS // 2), (7, 3_000_000_019), (10**9, STEPS - 1)]


@pytest.fixture(scope="module")
def address(session_folder) -> Iterator[str]:
    folder = session_folder / "vast"
    folder.mkdir()
    flags = ["--dataset=vast=live_sources:Vast", "--pipeline=numbers=client_pipelines:numbers"]
    with serving(folder, *flags, f"--python-path={HERE}", "--workers=2") as running:
        yield running.address
    shutil.rmtree(folder)


@pytest.fixture
def load(address):
    def make(**more) -> Loader:
        return Loader(
            address,
            pipeline="numbers",
            device="numpy",
            **{"global_batch_size": BATCH, "prefetch": 1, **more},
        )

    return make


def go(loader: Loader, epoch: int, step: int):
    """Return the batch at a place."""
    loader.set_epoch(epoch)
    loader.skip(step)
    batch = next(iter(loader))
    assert (batch.epoch, batch.step) == (epoch, step)
    return batch


@pytest.mark.parametrize("shuffle", [True, False])
def test_order(load, shuffle: bool) -> None:
    """The ids of the permutation, which are computed here for themselves."""
    with load(shuffle=shuffle, seed=3) as loader:
        assert len(loader) == STEPS
        order = dataset_order(loader.spec)
        for epoch, step in PLACES:
            batch = go(loader, epoch, step)
            ids = order.rows(epoch, step, 0, BATCH).ids
            np.testing.assert_array_equal(batch.index, ids)
            np.testing.assert_array_equal(batch["number"], ids)
            assert [order.find(epoch, int(number)).position for number in ids[:3]] == [
                step * BATCH + row for row in range(3)
            ]
            if shuffle:
                assert len(set(ids)) == BATCH
                assert len({int(number) * 8 // ROWS for number in ids}) == 8, "from all parts"


def test_ranks_and_cursor(load) -> None:
    """Three ranks cut the batches of one; a cursor from any place serves two."""
    with contextlib.ExitStack() as stack:
        whole, *ranks = [
            stack.enter_context(load(**cut))
            for cut in ({}, *({"rank": rank, "world_size": 3} for rank in range(3)))
        ]
        for place in PLACES:
            batch = go(whole, *place)
            parts = [go(rank, *place) for rank in ranks]
            np.testing.assert_array_equal(np.concatenate([p.index for p in parts]), batch.index)
        states = [rank.state_dict() for rank in ranks]
        assert states == [whole.state_dict()] * 3
    with load() as loader:
        go(loader, *PLACES[2])
        text = json.dumps(loader.state_dict())
        assert len(text) <= MAX_BYTES
        expected = next(iter_on(loader))
    with load(rank=0, world_size=2) as first, load(rank=1, world_size=2) as second:
        for rank in (first, second):
            rank.load_state_dict(json.loads(text))
        found = np.concatenate([next(iter(rank)).index for rank in (first, second)])
        np.testing.assert_array_equal(found, expected.index)


def iter_on(loader: Loader) -> Iterator:
    """Go on in the epoch that was left."""
    loader.load_state_dict(loader.state_dict())
    return iter(loader)


def test_left_out_samples_steps_and_views(load) -> None:
    with load(exclude=[0, ROWS - 1, 5 * 10**11], views=2) as loader:
        assert len(loader) == (ROWS - 3) // BATCH
        loader.skip_steps(4, [range(10, 3 * 10**9)])
        loader.set_epoch(4)
        loader.skip(10)
        batch = next(iter(loader))
        assert batch.step == 3 * 10**9
        assert batch.index[::2].tolist() == batch.index[1::2].tolist()
        assert not {0, ROWS - 1, 5 * 10**11} & set(batch.index.tolist())


@pytest.mark.parametrize("last", ["short", "pad"])
def test_the_end_of_an_epoch(load, last: str) -> None:
    """10^12 is not a multiple of 384."""
    size = 384
    with load(global_batch_size=size, last=last) as loader:
        steps = len(loader)
        assert steps == -(-ROWS // size)
        loader.skip(steps - 1)
        (batch,) = list(loader)
        assert int(batch.valid.sum()) == ROWS % size
        assert next(iter(loader)).epoch == 1
