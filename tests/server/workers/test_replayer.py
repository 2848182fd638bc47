"""A replayer with real processes: a replay, a fault, a death, and one that was canceled."""

import os

import msgspec
import numpy as np
import pytest
from asking import changed

from stoker.order.compose import dataset_order
from stoker.protocol.replayed_row import replay_from_bytes
from stoker.server.state.events import ReplayEnded, ReplayFailed
from stoker.server.work.work_records import ReplayRequest
from stoker.server.workers.replayer import row_of

pytestmark = pytest.mark.slow


@pytest.fixture
def request_of(stream_of):
    """request_of(**changes) -> a request for sample 3 of the small dataset."""

    def make(**changes) -> ReplayRequest:
        spec = changes.pop("spec", None)
        opened = stream_of() if spec is None else changed(stream_of(), spec=spec)
        values = {
            "replay": 5, "served": opened.served, "id": 3, "epoch": 2, "visit": 0, "view": 0,
        }  # fmt: skip
        return ReplayRequest(**{**values, **changes})

    return make


def test_a_replay_arrives_as_memory(rig, request_of):
    one = rig()
    one.supervisor.start_replay(request_of())
    made = one.wait(ReplayEnded)
    assert made.replay == 5
    memory = one.supervisor.take_replay(5)
    try:
        found = replay_from_bytes(os.pread(memory, made.size_bytes, 0))
    finally:
        os.close(memory)
    assert (found.id, found.epoch) == (3, 2)
    assert found.output("image").shape == (16, 16, 3)
    assert np.array_equal(found.steps[0].values[0].array, found.output("image"))
    assert one.supervisor.take_replay(5) is None


def test_the_row_lies_where_the_stream_has_it(request_of):
    spec = type(request_of().served.spec).from_data(
        {**request_of().served.spec.to_data(), "batch_size": 3, "total_epochs": 4, "tail": "pad"}
    )
    ids = dataset_order(spec).rows_of[0].lookup(2, 0, 10).ids.tolist()
    for position, number in enumerate(ids):
        row, _ = row_of(request_of(spec=spec, id=number), dataset_order(spec))
        assert (row.id, row.epoch, row.visit, row.step) == (number, 2, 0, position // 3)
        assert row.progress == (2 * 4 + position // 3) / 16
        other, bucket = row_of(request_of(spec=spec, visit=position + 1), dataset_order(spec))
        assert (other.step, bucket) == (position // 3, None)


def test_faults_and_deaths_are_typed_errors(rig, request_of):
    one = rig("replayer.start:segv:1:2,replayer.done:error:1:3")
    one.supervisor.start_replay(request_of(id=10**6))
    failed = one.wait(ReplayFailed)
    assert (failed.replay, failed.code) == (5, "usage")
    assert "expected an id from 0 to 9, got 1000000" in failed.message
    one.supervisor.start_replay(request_of())
    assert "died (killed by SIGSEGV)" in one.wait(ReplayFailed).message
    one.supervisor.start_replay(request_of())
    assert "replaying the sample failed with RuntimeError" in one.wait(ReplayFailed).message
    asked = request_of()
    (source,) = asked.served.sources
    source = msgspec.structs.replace(source, fingerprint="content:" + "0" * 32)
    served = msgspec.structs.replace(asked.served, sources=(source,))
    one.supervisor.start_replay(msgspec.structs.replace(asked, served=served))
    failed = one.wait(ReplayFailed)
    assert failed.code == "dataset"
    assert "as when the stream was opened" in failed.message


def test_a_canceled_replay_is_ended(rig, request_of):
    one = rig("replayer.start:stop:1")
    one.supervisor.start_replay(request_of())
    one.supervisor.drop_replay(5)
    assert "no longer wanted" not in one.wait(ReplayFailed).message
    assert one.supervisor.take_replay(5) is None
    assert not one.supervisor._children


def test_memory_of_a_replay_that_was_not_taken_is_given_back(rig, request_of):
    one = rig()
    one.supervisor.start_replay(request_of())
    one.wait(ReplayEnded)
    one.supervisor.drop_replay(5)
    assert one.supervisor.take_replay(5) is None
    one.supervisor.start_replay(request_of(replay=6))
    one.wait(ReplayEnded)
    one.supervisor.close()  # the leak fixture looks
