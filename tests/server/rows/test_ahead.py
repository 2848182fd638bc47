"""Reading ahead: the right samples are asked for, only while storage is waited for."""

import ctypes
import mmap
import os
import time

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import write_dataset
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.ahead import CHUNKS, ReadAhead
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

ROWS = 24
BLOB_BYTES = 2**21
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Samples of 2 MiB: a page that is touched brings up to some megabytes around it."""
    dest = tmp_path_factory.mktemp("ahead") / "d"
    rng = np.random.default_rng(1)
    fields = (schema.array("noise", "uint8", (None,)), schema.label())
    rows = ({"noise": rng.integers(0, 256, BLOB_BYTES, np.uint8), "label": n} for n in range(ROWS))
    write_dataset(dest, schema.Schema(fields), rows)
    return dest


def resident(view: np.ndarray) -> float:
    """Return which part of an array's whole pages is in memory."""
    first = -(-view.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = (view.ctypes.data + view.nbytes - first) // mmap.PAGESIZE
    states = ctypes.create_string_buffer(pages)
    assert LIBC.mincore(first, pages * mmap.PAGESIZE, states) == 0
    return sum(byte & 1 for byte in states.raw) / pages


def evict(folder) -> None:
    for path in folder.glob("*.arrow"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def test_samples_that_will_be_needed_are_read_and_others_are_not(folder):
    evict(folder)
    with open_dataset(folder) as dataset:
        views = [dataset.read("noise", number) for number in range(ROWS)]
        absent = [number for number in range(ROWS) if resident(views[number]) == 0]
        if len(absent) < ROWS // 2:
            pytest.skip("this file system ignores posix_fadvise(DONTNEED)")
        wanted = absent[::4]
        dataset.will_need(["noise", "label"], np.array(wanted))
        deadline = time.monotonic() + 20
        while min(resident(views[number]) for number in wanted) < 1:
            assert time.monotonic() < deadline, [resident(view) for view in views]
            os.sched_yield()
        others = [resident(views[number]) for number in absent if number not in wanted]
        assert np.mean(others) < 0.5


def test_it_rests_when_nothing_was_waited_for(folder):
    waits, asked = [0], []
    with open_dataset(folder) as dataset:
        ahead = ReadAhead(dataset, ["noise"], lambda: waits[0])

        def upcoming():
            asked.append(1)
            return np.array([1, 2])

        for _ in range(CHUNKS + 5):
            ahead.hint(upcoming)
        assert len(asked) == CHUNKS
        assert ahead.told == 2 * CHUNKS
        waits[0] += 1
        ahead.hint(upcoming)
        assert len(asked) == CHUNKS + 1
        for _ in range(CHUNKS - 2):
            waits[0] += 1
            ahead.hint(upcoming)
        assert len(asked) == 2 * CHUNKS - 1


@pipeline
def labels(sample):
    return {"label": sample.label}


def test_rows_of_the_next_step_are_asked_for(folder):
    with open_dataset(folder) as dataset:
        graph = labels.graph()
        spec = make_spec(folder, graph, batch_size=8, seed=3)
        plan = worker_plan(graph, dataset)
        layout = slot_layout(plan.outputs, 8)
        computer = RowComputer(
            spec, [RowSource(dataset, compile_plan(plan))], layout, arithmetic=COMPILED
        )
        asked, told = dataset.will_need, []
        dataset.will_need = lambda fields, ids: told.append(ids.tolist()) or asked(fields, ids)
        slot = np.zeros(layout.slot_bytes, np.uint8)
        index = next(placed for placed in layout.outputs if placed.name == "index")
        ids = slot[index.offset : index.offset + index.size_bytes].view(np.int64)
        computer.fill(slot, 0, 0, 2, 7)
        seen = []
        for epoch, step in ((0, 1), (0, 2), (1, 0)):
            computer.fill(slot, epoch, step, 2, 7)
            seen.append(ids[2:7].tolist())
        assert told[:3] == seen
