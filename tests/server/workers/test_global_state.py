"""A worker reads and writes no global random generator: not Python's, not NumPy's, not torch's.

The worker's own code fills a whole epoch in this process, where its traces would show. That it
reads none: other states of the generators, the same bytes.
"""

import mmap
import os
import random

import numpy as np
import pytest
import torch

from stoker.server.work.work_records import AddSlab, Done
from stoker.server.workers.child_config import PROGRESS_BYTES, WorkerConfig
from stoker.server.workers.worker import Worker

SLAB_BYTES = 65536
STEPS = 2


def states() -> tuple[object, bytes, int, bytes]:
    """All that decides what the three generators will give next."""
    numpy = np.random.get_state(legacy=False)["state"]
    torchs = torch.get_rng_state().numpy().tobytes()
    return random.getstate(), numpy["key"].tobytes(), int(numpy["pos"]), torchs


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


@pytest.fixture
def fill(kernel_cache, stream_of, work_of):
    """fill(debug_memory) -> the bytes of an epoch, by a worker in this process."""

    def run(debug_memory):
        config = WorkerConfig(0, 0, 1, str(kernel_cache), "", debug_memory)
        worker = Worker(config, mmap.mmap(-1, PROGRESS_BYTES))
        slab = os.memfd_create("slab")
        os.ftruncate(slab, SLAB_BYTES)
        worker.handle(AddSlab(1, SLAB_BYTES), os.dup(slab))
        opened = stream_of(seed=3)
        assert worker.handle(opened, None) is None
        filled = b""
        for step in range(STEPS):
            assert isinstance(worker.handle(work_of(opened, step=step), None), Done)
            filled += os.pread(slab, SLAB_BYTES, 0)
        os.close(slab)
        worker.close()
        return filled

    return run


@pytest.mark.slow
@pytest.mark.parametrize("debug_memory", [False, True])
def test_an_epoch_neither_reads_nor_writes_global_generators(fill, debug_memory):
    filled = []
    for number in (1, 2):
        seed(number)
        before = states()
        filled.append(fill(debug_memory))
        assert states() == before
    assert filled[0] == filled[1]
    assert any(filled[0])
