"""Hello, lifeline, and records out of order."""

import pytest

from stoker.protocol.messages import (
    AskStatus,
    Close,
    Credit,
    Error,
    Hello,
    Release,
    Seek,
    Status,
)
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.core_context import error_record


def refusal(said):
    one, log = said
    assert isinstance(one, ins.SendPeer)
    assert one.token == b""
    (record,) = one.records
    assert log.event == "client_refused"
    assert log.limited
    assert (log.facts["code"], log.facts["reason"]) == (record.code, record.message)
    assert log.facts["client"]
    return record


def logged(rig, event):
    """The facts of all log lines of an event; the clients cannot fill the log with them."""
    found = [one for one in rig.said if isinstance(one, ins.Log) and one.event == event]
    assert all(one.limited for one in found) == (event == "request_refused")
    return [one.facts for one in found]


def test_a_stream_is_logged_with_the_names_of_its_dataset_and_pipeline(rig):
    rig.open()
    rig.open(dataset="", pipeline="", graph=b"{}")
    found = logged(rig, "opened")
    assert [(one["client"], one["dataset"], one["pipeline"]) for one in found] == [
        ("run-17", "photos", "train"),
        ("run-17", "photos", "sent by the client"),
    ]


def test_a_refused_request_is_logged_with_its_names_and_the_reason(rig, make_open):
    token = rig.hello()
    rig.send(token, make_open(dataset="foto"), Seek(1, 0, 0))
    rig.send(token, make_open(dataset="", pipeline="plain"))
    rig.do(ev.BuildFailed, 1, "build", "x" * 2000, {})
    unknown, early, failed = logged(rig, "request_refused")
    who = {"client": "run-17", "host": "-", "pid": 0, "user": "-", "known_from": "-", "stream": "-"}
    assert unknown == {
        **who, "request": "OPEN", "dataset": "foto", "pipeline": "train",
        "code": "unknown_name", "reason": rig.errors(token)[0].message,
    }  # fmt: skip
    assert early == {
        **who, "request": "SEEK", "dataset": "foto",
        "code": "protocol",
        "reason": "SEEK came before OPENED; open a stream first",
    }  # fmt: skip
    assert failed == {
        **who, "request": "OPEN", "dataset": "photos", "pipeline": "plain",
        "code": "build", "reason": "x" * 997 + "...",
    }  # fmt: skip


def test_what_a_client_says_of_itself_is_printable_and_short_in_the_log(rig):
    said = Hello(7, 9, "x" * 256, b"", "a\nb\x1b", "h" * 256, 7, "\u202euser")
    refusal(rig.do(ev.Greeted, b"peer", b"t" * 16, said))
    facts = rig.said[-1].facts
    assert (facts["client"], facts["host"]) == ("a?b?", "h" * 64)
    assert (facts["pid"], facts["user"], facts["release"]) == (7, "?user", "x" * 64)


@pytest.mark.parametrize(("low", "high"), [(2, 5), (0, 0)])
def test_another_wire_version_is_refused(rig, low, high):
    record = refusal(rig.do(ev.Greeted, b"peer", b"t" * 16, Hello(low, high, "old")))
    assert record.code == "version"
    assert f"supports wire version 1, the client {low} to {high}" in record.message
    assert "use the same release of Stoker on both sides" in record.message
    assert rig.counters()["sessions"] == 0


def test_a_range_that_has_our_version_is_welcome(rig):
    said = rig.do(ev.Greeted, b"peer", b"t" * 16, Hello(0, 9, "new"))
    assert said[0].token == b"t" * 16


def test_sessions_are_bounded(make_rig):
    rig = make_rig(max_sessions=2)
    rig.hello()
    rig.hello()
    record = refusal(rig.do(ev.Greeted, b"peer", b"t" * 16, Hello(1, 1, "third")))
    assert record.code == "try_again"
    expected = (
        "has 2 sessions, its limit; try again later, close some, or raise daemon.max_sessions"
    )
    assert expected in record.message


def test_idle_greetings_of_one_process_lock_out_only_itself(make_rig):
    rig = make_rig(max_sessions=4)
    attached, other = rig.hello(), rig.hello(attach=False)
    idle = [bytes([n]) * 16 for n in (100, 101, 102)]
    for token in idle:
        rig.do(ev.Greeted, b"idle", token, Hello(1, 1, "idle"), "host:0:0:7")
    assert ins.EndSession(idle[0]) in rig.said
    newcomer = rig.do(ev.Greeted, b"new", b"n" * 16, Hello(1, 1, "new"), "host:0:0:8")
    assert ins.EndSession(idle[1]) in newcomer
    rig.do(ev.LifelineUp, b"n" * 16)
    for token in (attached, other, idle[2], b"n" * 16):
        assert ins.EndSession(token) not in rig.said


def test_a_session_without_lifeline_ends(rig):
    late, fine = rig.hello(attach=False), rig.hello()
    assert rig.tick(9.0) == []
    later = rig.hello(attach=False)
    assert ins.EndSession(late) in rig.tick(1.0)
    assert rig.counters()["sessions"] == 2
    assert ins.EndSession(later) in rig.tick(9.0)
    rig.tick(100)
    assert rig.send(fine, AskStatus())


def test_a_lifeline_of_nobody_is_closed(rig):
    assert rig.do(ev.LifelineUp, b"x" * 16) == [ins.EndSession(b"x" * 16)]
    assert rig.do(ev.LifelineDown, b"x" * 16) == []
    assert rig.send(b"x" * 16, AskStatus()) == []
    token = rig.hello()
    assert rig.do(ev.LifelineUp, token) == []


def test_nothing_but_close_before_the_lifeline(rig, make_open):
    token = rig.hello(attach=False)
    early = [make_open(request=9), Seek(1, 0, 0), Credit(1, 1), Release([(0, 1)]), AskStatus()]
    rig.send(token, *early)
    errors = rig.errors(token)
    assert [(e.code, e.request, e.run) for e in errors] == [("protocol", 9, None)] + [
        ("protocol", 0, None)
    ] * 4
    assert errors[0].message == "OPEN came before the lifeline was up; attach first"
    assert ins.EndSession(token) in rig.send(token, Close())


def test_records_before_opened(rig):
    token = rig.hello()
    rig.send(token, Seek(1, 0, 0), Credit(1, 1), Release([(0, 1)] * 3), Hello(1, 1, "x"))
    assert [e.message for e in rig.errors(token)] == [
        "SEEK came before OPENED; open a stream first",
        "CREDIT came before OPENED; open a stream first",
        "expected one HELLO per session, got a second one",
    ]
    assert rig.counters()["stale_releases_total"] == 3


def test_open_comes_once(rig, make_open):
    opened, opening = rig.open(), rig.hello()
    rig.send(opening, make_open(pipeline="plain"))
    for token in (opened, opening):
        rig.send(token, make_open(request=2))
        (error,) = rig.errors(token)
        assert (error.code, error.request) == ("protocol", 2)
        assert "expected one OPEN per session" in error.message


def test_records_after_close_are_not_looked_at(rig):
    token = rig.open()
    said = rig.send(token, Close(), Seek(1, 0, 0), AskStatus())
    assert not [one for one in said if isinstance(one, ins.Send)]


def test_status(rig):
    token = rig.hello()
    (sent,) = rig.send(token, AskStatus())
    (status,) = sent.records
    assert isinstance(status, Status)
    assert status.counters["sessions"] == 1
    assert status.counters == rig.counters()
    assert all(name.replace("_", "a").isalpha() for name in status.counters)


def test_one_message_gets_few_answers(rig):
    token = rig.open()
    said = rig.send(token, *[AskStatus()] * 100)
    assert len(said) == 1
    said = rig.send(token, *[Seek(0, 0, 9)] * 16)
    assert len(rig.errors(token)) == 16
    said = rig.send(token, *[Seek(0, 0, 9)] * 100)
    assert len(rig.errors(token)) == 16 + 17
    assert ins.EndSession(token) in said
    assert rig.counters()["sessions"] == rig.counters()["groups"] == 0


def test_one_message_releases_no_more_than_there_are_slots(rig):
    token = rig.open()
    rig.run(token, granted=1)
    rig.work()
    (batch,) = rig.ready(token)
    rig.send(token, Release([(0, 99)] * 6), Release([(batch.slot, batch.generation)]))
    (error,) = rig.errors(token)
    assert error.code == "protocol"
    assert error.message == (
        "RELEASE: expected at most 6 pairs in one message, the number of slots, got 7"
    )
    assert rig.counters()["leased_slots"] == 1


def test_errors_fit_the_wire():
    details = {f"{i}" * 300: "x" * 20000 for i in range(100)} | {"big": 2**70}
    record = error_record("c" * 300, "m" * 20000, dict(reversed(details.items())), request=1)
    assert isinstance(record, Error)
    assert len(record.code) == 256
    assert len(record.message) == 16384
    assert len(record.details) == 64
    assert record.details["big"] == str(2**70)
    assert max(len(key) for key in record.details) == 256
