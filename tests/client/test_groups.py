"""Loader(group=...): several loaders of one daemon read the same batches, each computed once."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from daemons import Daemon, serving

from stoker.client import Loader
from stoker.client.session import ClientSession
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest
from stoker.protocol.messages import AskStatus, Status

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
ROWS, BATCH, EDGE = 48, 4, 96
STEPS = ROWS // BATCH
OPTIONS = {"pipeline": "train", "batch_size": BATCH, "device": "numpy", "group": "sweep-7"}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 images of noise; a batch is larger than what clients copy out of its slot."""
    draw = np.random.default_rng(5)
    images = draw.integers(0, 256, (ROWS, EDGE, EDGE, 3), dtype=np.uint8)
    samples = [{"image": image, "label": row} for row, image in enumerate(images)]
    folder = tmp_path_factory.mktemp("groups") / "packed"
    write(folder, [schema.image(), schema.label(classes=[str(n) for n in range(ROWS)])], samples)
    return folder


def running(folder: Path, dataset: Path, *more: str) -> contextlib.AbstractContextManager[Daemon]:
    served = [f"--dataset=noise={dataset}"]
    served += [f"--pipeline={name}=client_pipelines:{name}" for name in ("train", "train_again")]
    return serving(folder, *served, f"--python-path={HERE}", "--workers=2", *more)


@pytest.fixture(scope="module")
def shared(session_folder: Path, dataset: Path) -> Iterator[Daemon]:
    """A daemon for all tests that leave it alive."""
    folder = session_folder / "groups"
    folder.mkdir()
    with running(folder, dataset) as daemon:
        yield daemon
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def alone(shared: Daemon) -> list[str]:
    """The digests of two epochs of a loader without a group."""
    with Loader(shared.address, **{**OPTIONS, "group": None}) as loader:
        return [digest(batch) for _ in range(2) for batch in loader]


def digest(batch) -> str:
    return batch_digest(batch, batch.epoch, batch.step)


def counters(address: str) -> dict[str, int | float]:
    session = ClientSession(address, 10.0)
    with contextlib.closing(session):
        session.send(AskStatus())
        session.receive(time.monotonic() + 10.0)
        (status,) = [record for record in session.inbox if isinstance(record, Status)]
        return status.counters


def computed(before: dict, address: str) -> int:
    """Rows that were computed since; the members' iterators are at the end of an epoch."""
    return int(counters(address)["rows_total"] - before["rows_total"])


@contextlib.contextmanager
def members(address: str, count: int, **more) -> Iterator[list[Loader]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Loader(address, **{**OPTIONS, **more})) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_each_sample_is_decoded_once(shared: Daemon, alone, count: int) -> None:
    """Bytes are those of a lone loader. Batches prefetched beyond the end are counted apart."""
    name, epochs = f"once-{count}", 2
    before = counters(shared.address)
    with members(shared.address, count, group=name, total_epochs=epochs) as loaders:
        for epoch in range(epochs):
            for batches in zip_longest(*loaders):
                expected = alone[epoch * STEPS + batches[0].step]
                assert [digest(batch) for batch in batches] == [expected] * count
                del batches
        ahead = loaders[0]._connection.prefetch
    rows = computed(before, shared.address)
    assert epochs * ROWS <= rows <= epochs * ROWS + ahead * BATCH
    after = counters(shared.address)
    shared_batches = after["shared_batches_total"] - before["shared_batches_total"]
    assert shared_batches >= (count - 1) * epochs * STEPS
    assert after["dropped_batches_total"] == before["dropped_batches_total"]
