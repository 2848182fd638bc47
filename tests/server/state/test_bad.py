"""Bad samples: told of once, counted, and too many of them stop the stream."""

from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.work.work_records import BadSample, Done


def bad(*ids: int) -> tuple[BadSample, ...]:
    return tuple(BadSample(number, "image", f"{number}.jpg", "it is damaged") for number in ids)


def finish(rig, *ids: int):
    """Worker 1 ends its head; it met these bad samples."""
    claim = rig.claims(1).pop(0)
    return rig.do(ev.ChunkDone, 1, Done(claim.claim, 0.01, 0, bad=bad(*ids)))


def told(said):
    return [one for one in said if isinstance(one, ins.Quarantine)]


def test_each_is_told_of_once(make_rig):
    rig = make_rig()
    rig.up(1)
    token = rig.open(on_error="mask", batch_size=4)
    rig.run(token, granted=100)
    (first,) = told(finish(rig, 3, 7, 3))
    assert first.dataset.startswith("content:")
    assert [sample.id for sample in first.bad] == [3, 7]
    assert not told(finish(rig, 7))
    (second,) = told(finish(rig, 7, 9))
    assert second.bad == bad(9)
    assert rig.counters()["bad_samples_total"] == 3
    logged = [one for one in rig.said if isinstance(one, ins.Log) and one.event == "bad_samples"]
    assert [one.facts["known"] for one in logged] == [2, 3]
    assert not rig.errors(token)


def test_too_many_stop_the_stream_for_all_and_for_good(make_rig):
    rig = make_rig(max_bad_fraction=0.04)  # of 50 samples: two are allowed
    rig.up(1)
    one, other = rig.open(on_error="replace"), rig.open(on_error="replace")
    for token in (one, other):
        rig.run(token)
    finish(rig, 1, 2)
    assert not rig.errors(one)
    finish(rig, 2, 5)
    for token in (one, other):
        (error,) = rig.errors(token)
        assert error.code == "stream_stopped"
        assert "3 of the 50 samples" in error.message
        assert "bad_samples.max_fraction = 0.04 allows; the last: sample 5" in error.message
        assert error.details["bad"] == 3
    rig.run(one, run=2)
    assert [error.code for error in rig.errors(one)] == ["stream_stopped"] * 2
