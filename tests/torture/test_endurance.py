"""Resources of a daemon and its clients after many batches, and leftovers of kill -9 of all.

STOKER_ENDURANCE multiplies batches and rounds; `make endurance` sets it to 100.
"""

import contextlib
import itertools
import os
import random
import re
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from daemons import Daemon, Restarted, children, descendants
from hosts import free_port
from jobs import PATIENCE_S, Reader
from law_rig import flags
from loading import grouped

from stoker.client import Batch, Loader

TIMES = int(os.environ.get("STOKER_ENDURANCE", "1"))
BATCHES = 1000 * TIMES
SHORT = 240 * TIMES
ROUNDS = 2 * TIMES
LOOKS = 40
GROWTH_BYTES = 2 * 2**20
STREAM = {"dataset": "boxed", "pipeline": "varying", "global_batch_size": 4, "total_epochs": 2}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 60 * TIMES)]


VARIANTS = {
    "plain": (BATCHES, False, {}),
    "tcp": (SHORT, True, {}),
    "group": (SHORT, False, {"group": "endurance"}),
    "verify": (SHORT, False, {"verify": True}),
}


def used(pid: int) -> tuple[int, int, int]:
    """A process's own memory, its mapped slabs (both in bytes), and how many descriptors it has.

    Mapped files are left out: the kernel takes their pages and gives them back as it likes.
    """
    text = Path(f"/proc/{pid}/status").read_text()
    own, slabs = (
        1024 * int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) for name in ("RssAnon", "RssShmem")
    )
    return own, slabs, len(os.listdir(f"/proc/{pid}/fd"))


def epochs(loader: Loader) -> Iterator[Batch]:
    """The first two epochs, again and again."""
    for epoch in itertools.cycle(range(2)):
        loader.set_epoch(epoch)
        yield from loader


@pytest.mark.parametrize(
    "variant",
    [pytest.param("plain", marks=pytest.mark.as_a_user), *(v for v in VARIANTS if v != "plain")],
)
def test_memory_does_not_grow_with_batches_of_mixed_sizes(tmp_path, datasets, variant):
    """The last quarter of the looks compared with the second; the first fills caches."""
    count, tcp, options = VARIANTS[variant]
    port = free_port() if tcp else 0
    more = [f"--tcp=tcp://127.0.0.1:{port}", "--insecure"] if tcp else []
    served = Daemon(tmp_path, *flags(tmp_path, datasets, workers=2), *more, warm=True)
    address = f"tcp://127.0.0.1:{port}" if tcp else served.address
    looks: dict[int, list[tuple[int, int, int]]] = {}
    with (
        contextlib.closing(served),
        Loader(address, **grouped(device="numpy", prefetch=3, **STREAM, **options)) as loader,
    ):
        shapes = set()
        for number, batch in enumerate(itertools.islice(epochs(loader), count)):
            shapes.add(batch["image"].shape)
            if number % (count // LOOKS) == 0:
                for pid in (os.getpid(), served.pid, *descendants(served.pid)):
                    looks.setdefault(pid, []).append(used(pid))
        assert served.stop() == 0
    assert len(shapes) > 3, "the batches are not of mixed sizes"
    assert len(looks) == len(["client", "daemon", "template", "worker", "worker"])
    for pid, found in looks.items():
        assert len(found) == LOOKS, f"{pid} did not live from start to end"
        quarters = np.median(np.array(found).reshape(4, -1, 3), axis=1)
        own, slabs, descriptors = (quarters[3] - quarters[1]).tolist()
        assert own < GROWTH_BYTES, f"{pid} grows: {quarters[:, 0] / 2**20} MiB"
        assert slabs < GROWTH_BYTES, f"{pid} maps more slabs: {quarters[:, 1] / 2**20} MiB"
        assert descriptors < 2, f"{pid} has more descriptors: {quarters[:, 2]}"


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.as_a_user), *range(1, ROUNDS)])
def test_nothing_is_left_after_kill_9_of_everything(tmp_path, datasets, seed):
    """The daemon, its template, its workers and two trainings are killed, in any order."""
    rng = random.Random(seed)
    before = set(os.listdir("/dev/shm"))
    served = Restarted(tmp_path, *flags(tmp_path, datasets, workers=2))
    served.start()
    try:
        options = STREAM | {"seed": seed, "reconnect_s": None}
        readers = [Reader(served.address, options, tmp_path / f"reader-{n}") for n in range(2)]
        for reader in readers:
            reader.wait_for_a_batch()
        (template,) = children(served.pid)
        pids = [served.pid, template, *children(template), *(reader.pid for reader in readers)]
        handles = [os.pidfd_open(pid) for pid in pids]
        for handle in rng.sample(handles, len(handles)):
            with contextlib.suppress(ProcessLookupError):  # it died with another one
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        for pid, handle in zip(pids, handles, strict=True):
            with os.fdopen(handle) as file:
                assert select.select([file], [], [], PATIENCE_S)[0], f"{pid} is still there"
        for reader in readers:
            reader.kill()
        served.kill()
        assert set(os.listdir("/dev/shm")) <= before
        served.start()  # at the same address, among the sockets and locks of the dead
        with Loader(served.address, **grouped(device="numpy", **STREAM, seed=seed)) as loader:
            assert len(list(loader)) == len(loader)
        served.stop()
        assert list(tmp_path.glob("*.sock*")) == []
    finally:
        served.close()
