"""A worker builds an engine once: a second session of a pipeline finds that of the first."""

import mmap
import os
import shutil

import msgspec
import numpy as np
import pytest
from asking import changed

from stoker import ops
from stoker.pipeline import pipeline
from stoker.pipeline.graph.normal import pipeline_id
from stoker.server.rows.graphs import graph_to_bytes
from stoker.server.work.work_records import AddSlab, CloseStream, Done, DropSlab
from stoker.server.workers.child_config import PROGRESS_BYTES, WorkerConfig
from stoker.server.workers.engines import KEPT
from stoker.server.workers.worker import Worker

SLAB_BYTES = 65536
pytestmark = pytest.mark.slow


class Bench:
    """A worker in this process, and a slab that it writes to."""

    def __init__(self, cache, debug_memory=False):
        self.worker = Worker(
            WorkerConfig(0, 0, 1, str(cache), "", debug_memory), mmap.mmap(-1, PROGRESS_BYTES)
        )
        self._slab = os.memfd_create("slab")
        os.ftruncate(self._slab, SLAB_BYTES)
        self.worker.handle(AddSlab(1, SLAB_BYTES), os.dup(self._slab))

    @property
    def made(self):
        return self.worker.engines.made

    def open(self, opened):
        failed = self.worker.handle(opened, None)
        assert failed is None, failed.message

    def fill(self, work):
        """The slab after a chunk that began with zeros."""
        os.pwrite(self._slab, bytes(SLAB_BYTES), 0)
        done = self.worker.handle(work, None)
        assert isinstance(done, Done), done
        return os.pread(self._slab, SLAB_BYTES, 0)

    def close(self):
        self.worker.handle(DropSlab(1), None)
        self.worker.close()
        os.close(self._slab)


@pytest.fixture
def bench(kernel_cache):
    made = []

    def make(**fields):
        made.append(Bench(kernel_cache, **fields))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_second_session_of_a_pipeline_builds_nothing(bench, stream_of):
    one = bench()
    one.open(stream_of(1, seed=1))
    one.open(stream_of(2, seed=2, batch_size=2, views=2))
    one.worker.handle(CloseStream(1), None)
    one.worker.handle(CloseStream(2), None)
    one.open(stream_of(3, seed=3))
    assert (one.made, len(one.worker.engines)) == (1, 1)


def test_sessions_that_share_an_engine_get_the_bytes_of_their_own(bench, stream_of, work_of):
    """Row by row in turns, so that each row is computed after one of the other session."""
    streams = [stream_of(1, seed=1), stream_of(2, seed=2)]
    apart = [bench(), bench()]
    together = bench()
    for one, opened in zip(apart, streams, strict=True):
        one.open(opened)
        together.open(opened)
    assert together.made == 1
    seen = set()
    for step in range(2):
        for row in range(4):
            for one, opened in zip(apart, streams, strict=True):
                work = work_of(opened, step=step, rows=range(row, row + 1))
                filled = together.fill(work)
                assert filled == one.fill(work)
                seen.add(filled)
    assert len(seen) == 16


def with_graph(opened, written, stream=1):
    """The same stream of another pipeline; both have the same outputs."""
    graph = written.graph()
    spec = msgspec.structs.replace(opened.served.spec, pipeline=pipeline_id(graph), total_epochs=4)
    fields = {"stream": stream, "graph": graph_to_bytes(graph), "spec": spec}
    return changed(opened, **fields)


@pipeline
def narrower(sample):
    picture = ops.random_resized_crop(sample.image, size=16, scale=(0.5, 1.0))
    return {"image": picture, "label": sample.label}


def test_what_an_engine_is_made_of_is_its_key(bench, stream_of, tmp_path):
    one, opened = bench(), stream_of()
    one.open(opened)
    one.open(with_graph(opened, narrower, 2))
    assert one.made == 2
    one.open(stream_of(3, freeze={"random_resized_crop": 7}))
    assert one.made == 3
    one.open(stream_of(4, freeze={"random_resized_crop": "epoch"}))
    assert one.made == 4
    copy = str(tmp_path / "copy")
    shutil.copytree(opened.served.sources[0].dataset, copy)
    one.open(changed(opened, stream=5, dataset=copy))
    assert one.made == 5
    one.open(with_graph(stream_of(freeze={}), narrower, 6))
    assert one.made == 5


def test_few_engines_are_kept_and_a_stream_keeps_its_own(bench, stream_of, work_of):
    one, alone, opened = bench(), bench(), stream_of()
    one.open(opened)
    alone.open(opened)
    for number in range(KEPT):
        one.open(stream_of(2 + number, freeze={"random_resized_crop": number}))
    assert (one.made, len(one.worker.engines)) == (KEPT + 1, KEPT)
    work = work_of(opened)
    assert one.fill(work) == alone.fill(work)
    one.open(stream_of(99, freeze={"random_resized_crop": KEPT - 1}))
    assert one.made == KEPT + 1
    one.open(stream_of(100))
    assert one.made == KEPT + 2


def darker(image: np.ndarray) -> np.ndarray:
    return image // 2


@pipeline
def scheduled(sample, ctx):
    picture = ops.random_resized_crop(sample.image, size=16)
    return {"image": ops.invert(picture, p=0.5 * ctx.progress), "label": sample.label}


@pipeline
def mixed(sample):
    picture = ops.random_resized_crop(sample.image, size=16)
    return {"image": ops.cutmix(picture, alpha=1.0), "label": sample.label}


@pipeline
def in_python(sample):
    picture = ops.random_resized_crop(sample.image, size=16)
    return {"image": ops.python(darker, picture, randomness="none"), "label": sample.label}


@pytest.mark.parametrize("written", [scheduled, mixed, in_python])
def test_what_may_keep_something_of_a_row_is_built_for_each_session(bench, stream_of, written):
    one, opened = bench(), stream_of()
    one.open(with_graph(opened, written, 1))
    one.open(with_graph(opened, written, 2))
    assert (one.made, len(one.worker.engines)) == (2, 0)


def test_between_guard_bytes_each_session_has_its_own(bench, stream_of):
    one = bench(debug_memory=True)
    one.open(stream_of(1))
    one.open(stream_of(2))
    assert (one.made, len(one.worker.engines)) == (2, 0)
