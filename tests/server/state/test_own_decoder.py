"""Stoker's own decoder of JPEGs is compiled once it is wanted; then all workers are told."""

import pytest
from decided import of

from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.own_decoder import MOST_DEATHS
from stoker.server.work.work_records import Done


def want(rig, worker=1, form=1):
    """A worker ends a chunk in which it met files for the decoder."""
    claim = rig.claims(worker).pop(0)
    return rig.do(ev.ChunkDone, worker, Done(claim.claim, 0.01, 0, wanted_form=form))


@pytest.fixture
def running(rig):
    """A stream is read."""
    rig.run(rig.open())
    return rig


def told(said):
    return [one.worker for one in of(said, ins.TellDecoder)]


def lines(rig, event):
    return [one.facts for one in of(rig.said, ins.Log) if one.event == event]


def test_it_is_compiled_once_and_all_workers_are_told(running):
    rig = running
    rig.finish(2)
    assert not of(rig.said, ins.CompileDecoder), "no file wanted it"
    assert len(of(want(rig), ins.CompileDecoder)) == 1
    want(rig, 2)
    rig.tick(60.0)
    assert len(of(rig.said, ins.CompileDecoder)) == 1
    assert rig.counters()["own_decoder"] == 0
    assert told(rig.do(ev.DecoderReady)) == [1, 2]
    assert rig.counters()["own_decoder"] == 1
    assert lines(rig, "own_decoder_ready") == [{"seconds": 60.0}]
    want(rig)
    assert rig.counters()["decoder_compilations_total"] == 1


def test_a_later_form_is_compiled_while_the_first_one_serves(running):
    rig = running
    want(rig)
    rig.do(ev.DecoderReady)
    (begun,) = of(want(rig, 2, form=2), ins.CompileDecoder)
    assert (begun.form, rig.counters()["own_decoder"]) == (2, 1)
    said = of(rig.do(ev.DecoderReady), ins.TellDecoder)
    assert [(one.worker, one.form) for one in said] == [(1, 2), (2, 2)]
    want(rig)
    want(rig, form=2)
    assert rig.counters()["decoder_compilations_total"] == 2


def test_a_later_form_that_is_wanted_meanwhile_is_compiled_next(running):
    rig = running
    want(rig)
    assert not of(want(rig, 2, form=2), ins.CompileDecoder), "one at a time"
    assert [one.form for one in of(rig.do(ev.DecoderReady), ins.TellDecoder)] == [1, 1]
    (begun,) = of(rig.tick(), ins.CompileDecoder)
    assert begun.form == 2


def test_a_worker_that_comes_up_later_is_told_then(running):
    rig = running
    want(rig)
    rig.die(2)
    assert told(rig.do(ev.DecoderReady)) == [1]
    rig.tick()
    assert told(rig.do(ev.WorkerUp, 3, 1003)) == [3]


def test_it_waits_for_builds_of_pipelines(running, make_open, make_result):
    rig = running
    rig.send(rig.hello(), make_open(pipeline="plain"))
    build = of(rig.said, ins.StartBuild)[-1].request.build
    assert not of(want(rig), ins.CompileDecoder)
    rig.do(ev.Built, make_result(build, pipeline_id="ef" * 16))
    assert len(of(rig.tick(), ins.CompileDecoder)) == 1


def test_a_compiler_that_is_killed_is_started_again_a_few_times(running):
    rig = running
    want(rig)
    for deaths in range(1, MOST_DEATHS + 1):
        assert rig.counters()["decoder_compilations_total"] == deaths
        rig.do(ev.DecoderFailed, "signal 9", died=True)
        assert not of(rig.tick(0.2), ins.CompileDecoder), "there is a pause"
        rig.tick(60.0)
    assert rig.counters()["decoder_compilations_total"] == MOST_DEATHS
    *again, last = lines(rig, "own_decoder_failed")
    assert [line["then"] for line in again] == ["it is compiled again soon"] * (MOST_DEATHS - 1)
    assert "libjpeg-turbo decodes until the daemon starts again" in last["then"]
    assert (last["reason"], rig.counters()["own_decoder"]) == ("signal 9", 0)


def test_a_compiler_without_progress_is_ended_and_another_one_starts(make_rig):
    rig = make_rig(build_deadline_s=30.0)
    rig.up(1, 2)
    rig.run(rig.open())
    want(rig)
    for _ in range(3):
        assert not of(rig.tick(29.0), ins.EndDecoder)
        rig.do(ev.DecoderProgress)
    (ended,) = of(rig.tick(31.0), ins.EndDecoder)
    assert ended.reason == "made no progress for 30 s"
    assert not of(rig.tick(1.0), ins.EndDecoder), "once"
    rig.do(ev.DecoderFailed, f"its compiler {ended.reason}", died=True)
    (line,) = lines(rig, "own_decoder_failed")
    assert line["reason"] == "its compiler made no progress for 30 s"
    assert line["then"] == "it is compiled again soon"
    rig.tick(1.0)
    assert rig.counters()["decoder_compilations_total"] == 2
    assert not of(rig.tick(29.0), ins.EndDecoder), "the new one has its own time"
    assert told(rig.do(ev.DecoderReady)) == [1, 2]


def test_a_decoder_that_the_cache_has_lost_is_compiled_again_and_does_not_serve(running):
    rig = running
    want(rig)
    for again in range(1, MOST_DEATHS + 1):
        assert told(rig.do(ev.DecoderReady)) == [1, 2]
        assert rig.counters()["own_decoder"] == 1
        rig.do(ev.DecoderMissed, 1)
        rig.do(ev.DecoderMissed, 2)
        assert rig.counters()["own_decoder"] == 0
        assert len(lines(rig, "own_decoder_failed")) == again, "one line for all workers"
        rig.tick(60.0)
        assert rig.counters()["decoder_compilations_total"] == min(again + 1, MOST_DEATHS)
    *again, last = lines(rig, "own_decoder_failed")
    assert {line["then"] for line in again} == {"it is compiled again soon"}
    assert "the kernel cache had lost it when worker 1 was told to load it" in last["reason"]
    assert "libjpeg-turbo decodes until the daemon starts again" in last["then"]


def test_an_error_ends_the_attempts(running):
    rig = running
    want(rig)
    rig.do(ev.DecoderFailed, "kernel cache /c: No space left on device", died=False)
    rig.tick(60.0)
    assert len(of(rig.said, ins.CompileDecoder)) == 1
    (line,) = lines(rig, "own_decoder_failed")
    assert "libjpeg-turbo decodes until the daemon starts again" in line["then"]


def test_nothing_is_compiled_while_the_daemon_stops(running):
    rig = running
    rig.do(ev.StopAsked, at_once=False)
    want(rig)
    assert not of(rig.said, ins.CompileDecoder)


@pytest.mark.parametrize(("jpeg", "serves"), [("auto", 0), ("libjpeg", 0), ("stoker", 1)])
def test_the_counter_says_which_decoder_serves(make_rig, jpeg, serves):
    assert make_rig(jpeg=jpeg).counters()["own_decoder"] == serves
