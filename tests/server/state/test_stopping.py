"""The conditions under which the daemon ends."""

import pytest

from stoker.protocol.messages import Bye, Close, Hello
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev


def exits(said):
    return [one for one in said if isinstance(one, ins.Exit)]


def test_a_stop_says_goodbye_and_waits_for_claims(rig):
    token, early = rig.open(), rig.hello(attach=False)
    rig.run(token, granted=3)
    said = rig.do(ev.StopAsked, at_once=False)
    for session in (token, early):
        at = said.index(ins.Send(session, (Bye("the daemon shuts down"),)))
        assert ins.EndSession(session) in said[at:]
    assert not exits(said)
    refused = rig.do(ev.Greeted, b"peer", b"t" * 16, Hello(1, 1, "late"))
    assert refused[0].records[0].code == "connect"
    assert "the daemon is shutting down" in refused[0].records[0].message
    while rig.claims(1):
        assert not exits(rig.finish(1))
    rig.finish(2)
    assert exits(rig.finish(2)) == [ins.Exit(0)]
    assert rig.tick() == []
    assert rig.do(ev.StopAsked, at_once=True) == []


def test_a_stop_waits_no_longer_than_its_time(make_rig):
    rig = make_rig(drain_s=4)
    rig.up(1, 2)
    rig.run(rig.open(), granted=3)
    rig.do(ev.StopAsked, at_once=False)
    assert not exits(rig.tick(3.9))
    assert exits(rig.tick(0.1)) == [ins.Exit(0)]


def test_an_idle_daemon_stops_at_once(rig):
    assert exits(rig.do(ev.StopAsked, at_once=False)) == [ins.Exit(0)]


@pytest.mark.parametrize("first", [True, False])
def test_at_once(rig, first):
    token = rig.open()
    rig.run(token, granted=3)
    if first:
        assert not exits(rig.do(ev.StopAsked, at_once=False))
    said = rig.do(ev.StopAsked, at_once=first or True)
    assert exits(said) == [ins.Exit(0)]
    assert any(isinstance(record, Bye) for record in rig.sent(token))


def test_no_worker_is_started_while_stopping(rig):
    rig.run(rig.open(), granted=3)
    rig.do(ev.StopAsked, at_once=False)
    said = rig.die(1)
    assert not [one for one in said if isinstance(one, ins.StartWorker)]
    assert not [one for one in rig.tick() if isinstance(one, ins.StartWorker)]


@pytest.mark.parametrize("opened", [True, False])
def test_with_the_last_client(make_rig, opened):
    rig = make_rig(exit_with_last_client=True)
    rig.up(1, 2)
    tokens = [rig.open() if opened else rig.hello() for _ in range(2)]
    assert not exits(rig.send(tokens[0], Close()))
    late = rig.hello(attach=False)
    assert not exits(rig.do(ev.LifelineDown, tokens[1]))
    rig.do(ev.LifelineUp, late)
    assert exits(rig.do(ev.LifelineDown, late)) == [ins.Exit(0)]


def test_without_a_client_in_time(make_rig):
    rig = make_rig(exit_with_last_client=True, first_client_s=30)
    assert not exits(rig.tick(0))
    rig.hello(attach=False)
    assert not exits(rig.tick(29))
    assert exits(rig.tick(1)) == [ins.Exit(0)]


def test_otherwise_it_stays(rig):
    token = rig.open()
    rig.send(token, Close())
    for _ in range(10):
        assert not exits(rig.tick(100))
