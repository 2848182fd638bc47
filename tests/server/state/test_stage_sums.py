"""Sums of stage times: under the names of the configuration, and never more than there is room."""

from stoker.protocol.codec import decode_from_daemon, encode
from stoker.protocol.messages import StageSum, Status
from stoker.server.state.stage_sums import MAX_PIPELINES, MAX_STAGES, REST, StageSums
from stoker.server.work.work_records import Timed


def timed(*stages, rows=1, source=0):
    return [Timed(source, rows, tuple(StageSum(*stage) for stage in stages))]


def test_times_of_a_stage_are_added_up_for_each_source():
    sums = StageSums()
    served = (("photos", "train"), ("masks", "private"))
    sums.add(served, timed(("read", "", 1.0, 0.5), ("op", "flip (a.py:1)", 2.0, 2.0), rows=3))
    sums.add(served, timed(("read", "", 0.5, 0.25), ("read", "", 0.25, 0.25), rows=2))
    sums.add(served, timed(("decode", "", 4.0, 4.0), source=1))
    photos, masks = sums.times()
    assert (photos.dataset, photos.pipeline, photos.rows) == ("photos", "train", 5)
    assert photos.stages == [
        StageSum("read", "", 1.75, 1.0),
        StageSum("op", "flip (a.py:1)", 2.0, 2.0),
    ]
    assert (masks.dataset, masks.pipeline, masks.rows) == ("masks", "private", 1)


def test_names_from_outside_neither_tear_a_line_nor_grow_without_end():
    sums = StageSums()
    for number in range(2 * MAX_STAGES):
        op = f"{number} (\n" + 1000 * "x"
        sums.add([("photos", "private")], timed(("op", op, 1.0, 1.0)))
    (found,) = sums.times()
    assert all(stage.op.isprintable() for stage in found.stages)
    assert len(found.stages) == MAX_STAGES + 1
    assert found.stages[-1] == StageSum("other", "", MAX_STAGES, MAX_STAGES)
    for number in range(2 * MAX_PIPELINES):
        sums.add([("photos", f"p{number}")], timed(("read", "", 1.0, 1.0)))
    times = sums.times()
    assert len(times) == MAX_PIPELINES + 1
    assert (times[-1].dataset, times[-1].pipeline) == REST
    assert sum(one.rows for one in times) == 2 * MAX_STAGES + 2 * MAX_PIPELINES
    status = Status({}, stages=times)
    assert decode_from_daemon(encode(b"", [status]))[1] == [status]
