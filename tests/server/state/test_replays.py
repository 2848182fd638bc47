"""Replays: one at a time for each session, a few at a time in all, none without its session."""

import pytest
from decided import records

from stoker.protocol.messages import AskReplay, Close, Error
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

ASK = AskReplay(request=2, id=49, epoch=7, visit=1, view=0)


def of(said, kind):
    return [one for one in said if isinstance(one, kind)]


def started(said) -> int:
    (start,) = of(said, ins.StartReplay)
    return start.request.replay


def test_a_replay_is_made_and_sent(rig):
    token = rig.open(seed=7, freeze={}, views=2)
    (start,) = of(rig.send(token, ASK), ins.StartReplay)
    asked = start.request
    source, spec = asked.served.sources[0], asked.served.spec
    assert (source.dataset, source.graph) == ("/data/photos", b"graph")
    assert (asked.id, asked.epoch, asked.visit, asked.view) == (49, 7, 1, 0)
    assert (spec.seed, spec.views) == (7, 2)
    assert rig.counters()["replays"] == 1
    said = rig.do(ev.ReplayEnded, asked.replay, 4096)
    assert of(said, ins.SendReplay) == [ins.SendReplay(token, asked.replay, 2, 4096)]
    assert (rig.counters()["replays"], rig.counters()["replays_total"]) == (0, 1)
    assert started(rig.send(token, ASK)) > asked.replay


def test_a_replay_that_fails_answers_the_request(rig):
    token = rig.open()
    number = started(rig.send(token, ASK))
    said = rig.do(ev.ReplayFailed, number, "sample", "cannot decode it", {"id": 49})
    assert records(said, token) == [Error(2, "sample", "cannot decode it", {"id": 49}, None)]
    assert rig.counters()["replays"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": 50}, "replay: expected an id from 0 to 49, got 50"),
        ({"view": 1}, "replay: expected a view from 0 to 0, got 1"),
    ],
)
def test_what_the_stream_has_not_is_refused(rig, changes, message):
    token = rig.open()
    values = {name: getattr(ASK, name) for name in ASK.__struct_fields__}
    said = rig.send(token, AskReplay(**{**values, **changes}))
    assert not of(said, ins.StartReplay)
    (error,) = records(said, token)
    assert (error.request, error.code, error.message) == (2, "usage", message)


def test_a_second_one_and_one_without_a_stream_are_refused(rig):
    token = rig.open()
    started(rig.send(token, ASK))
    (error,) = records(rig.send(token, ASK), token)
    assert (
        error.message
        == "replay: expected one at a time per session, got a second one; wait for the first"
    )
    bare = rig.hello()
    (error,) = records(rig.send(bare, ASK), bare)
    assert (error.request, error.code) == (2, "protocol")
    assert "ASKREPLAY came before OPENED" in error.message


def test_replays_wait_for_each_other(make_rig):
    rig = make_rig(concurrent_replays=2)
    rig.up(1, 2)
    tokens = [rig.open() for _ in range(4)]
    first, second = (started(rig.send(token, ASK)) for token in tokens[:2])
    for token in tokens[2:]:
        assert not of(rig.send(token, ASK), ins.StartReplay)
    assert rig.counters()["replays"] == 4
    (error,) = records(rig.send(tokens[2], ASK), tokens[2])
    assert "expected one at a time per session" in error.message
    third = started(rig.do(ev.ReplayEnded, first, 1))
    fourth = started(rig.do(ev.ReplayFailed, second, "sample", "bad", {}))
    sent = [of(rig.do(ev.ReplayEnded, number, 1), ins.SendReplay) for number in (third, fourth)]
    assert [one.token for (one,) in sent] == tokens[2:]


def test_a_session_that_goes_takes_its_replay_along(make_rig):
    rig = make_rig(concurrent_replays=1)
    rig.up(1, 2)
    runs, waits, stays = (rig.open() for _ in range(3))
    number = started(rig.send(runs, ASK))
    rig.send(waits, ASK)
    rig.send(stays, ASK)
    assert not of(rig.send(waits, Close()), ins.DropReplay)
    said = rig.send(runs, Close())
    assert of(said, ins.DropReplay) == [ins.DropReplay(number)]
    assert [start.request.replay for start in of(said, ins.StartReplay)] == [number + 2]
    late = rig.do(ev.ReplayEnded, number, 4096)
    assert late == [ins.DropReplay(number)]
    assert rig.do(ev.ReplayFailed, number, "sample", "died", {}) == []
    (sent,) = of(rig.do(ev.ReplayEnded, number + 2, 1), ins.SendReplay)
    assert sent.token == stays


def test_a_replay_that_hangs_is_ended_and_the_next_one_begins(make_rig):
    rig = make_rig(concurrent_replays=1, replay_deadline_s=10.0)
    rig.up(1, 2)
    hangs, waits = rig.open(), rig.open()
    number = started(rig.send(hangs, ASK))
    rig.send(waits, ASK)
    assert not of(rig.tick(9.9), ins.DropReplay)
    said = rig.tick(0.2)
    (error,) = records(said, hangs)
    assert (error.request, error.code, error.details) == (2, "sample", {"id": 49})
    assert error.message.startswith("replaying sample 49 took longer than 10 s and was ended")
    assert of(said, ins.DropReplay) == [ins.DropReplay(number)]
    assert started(said) == number + 1
    assert rig.do(ev.ReplayFailed, number, "sample", "died", {}) == []
    assert not of(rig.tick(9.0), ins.DropReplay)
