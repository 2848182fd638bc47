"""OPEN: names, builds, StreamSpec, memory, slab."""

import struct

import msgspec
import pytest
from decided import of

from stoker.protocol.draw_records import Drawn, DrawnField
from stoker.protocol.exclude import Excluded
from stoker.protocol.messages import Building, Close, Hello, Opened
from stoker.protocol.request.option_refusals import CHOICES, REFUSALS
from stoker.protocol.request.stream_request import Selection
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.slot_layout import Output, slot_layout
from stoker.protocol.subset import Subset
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.work.work_records import BuiltSource

BYTES = 4096  # of a slot of the rig's outputs, up to 64 rows


def ids(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


def refused(rig, make_open, **changes):
    """OPEN is refused at once; returns the error."""
    token = rig.hello()
    said = rig.send(token, make_open(request=5, **changes))
    (error,) = rig.errors(token)
    assert error.request == 5
    assert not of(said, ins.StartBuild)
    assert rig.counters()["memory_used_bytes"] == 0
    return error.code, error.message


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            {"dataset": "foto"},
            "unknown_name",
            "there is no dataset 'foto', did you mean 'photos'?; this daemon has 'photos'",
        ),
        (
            {"pipeline": "validation"},
            "unknown_name",
            "there is no pipeline 'validation'; this daemon has 'plain', 'train'",
        ),
        ({"pipeline": ""}, "usage", "expected a pipeline by name or as an object, got neither"),
        ({"graph": b"{}"}, "usage", "expected a pipeline by name or as an object, got both"),
        ({"rank": 2, "world_size": 2}, "usage", "rank: expected one from 0 to world_size - 1 = 1"),
        (
            {"batch_size": 2, "rank": 0, "world_size": 3},
            "usage",
            "rank 0 of 3 has no row: a global batch has 2 rows",
        ),
        ({"batch_size": 2**24, "views": 2}, "usage", "at most 16777216 rows in a batch"),
        ({"exclude": b"123"}, "usage", "exclude: expected 8 bytes per id, got 3 bytes"),
        ({"exclude": ids(4, 3)}, "usage", "ascending, every id once, got 3 after 4"),
    ],
)
def test_impossible_requests_are_refused_before_a_build(rig, make_open, changes, code, message):
    got = refused(rig, make_open, **changes)
    assert got[0] == code
    assert message in got[1]


def test_the_only_dataset_needs_no_name(rig, make_open):
    token = rig.hello()
    rig.send(token, make_open(dataset=""))
    assert wanted(rig).dataset == "/data/photos"


@pytest.mark.parametrize("datasets", [{}, {"a": "/a", "b": "/b"}])
def test_without_a_name_there_must_be_one_dataset(make_rig, make_open, datasets):
    code, message = refused(make_rig(datasets=datasets), make_open, dataset="")
    assert code == "usage"
    assert "expected the name of a dataset, because this daemon has " in message
    assert ("'a', 'b', not" if datasets else "none, not") in message


def test_many_names_are_not_all_listed(make_rig, make_open):
    names = {f"d{i:02}": "/d" for i in range(30)}
    _, message = refused(make_rig(datasets=names), make_open, dataset="x" * 256)
    assert message.endswith("'d18', 'd19' and 10 more")


def test_a_graph_instead_of_a_name(rig, make_open):
    rig.send(rig.hello(), make_open(pipeline="", graph=b"{}"))
    assert (wanted(rig).pipeline, wanted(rig).graph) == ("", b"{}")


def test_one_build_for_all_who_want_the_same(rig, make_open, make_result):
    tokens = [rig.hello() for _ in range(3)]
    for token in tokens:
        rig.send(token, make_open())
    assert len(of(rig.said, ins.StartBuild)) == 1
    said = rig.do(ev.Built, make_result(1))
    assert len(of(said, ins.ReserveSlab)) == 3
    for slab in of(said, ins.ReserveSlab):
        rig.do(ev.SlabReserved, slab.slab)
    assert all(of(rig.sent(token), Opened) for token in tokens)
    rig.builds_know = False
    rig.send(rig.hello(), make_open())
    asked = [start.request.known for start in of(rig.said, ins.StartBuild)]
    assert asked == [None, make_result(1)], "the dataset may have changed"
    assert rig.counters()["builds_total"] == 2
    assert rig.counters()["streams"] == 1
    assert rig.counters()["groups"] == 3


def test_builds_wait_for_each_other(make_rig, make_open, make_result):
    rig = make_rig(concurrent_builds=1, pipelines={f"p{i}": f"m:p{i}" for i in range(3)})
    tokens = [rig.hello() for _ in range(3)]
    for i, token in enumerate(tokens):
        rig.send(token, make_open(pipeline=f"p{i}"))
    assert pipelines(rig) == ["m:p0"]
    rig.do(ev.LifelineDown, tokens[1])  # its build has not begun and is not needed any more
    rig.do(ev.Built, make_result(1))
    assert pipelines(rig) == ["m:p0", "m:p2"]
    assert rig.counters()["builds"] == 1


def test_what_workers_need_for_a_pipeline_counts_once_for_its_streams(rig, make_open, make_result):
    built = {"working_bytes": 400_000, "most_bytes": 300_000, "most": "resize (jobs.py:3)"}
    first, second = rig.open(built=built), rig.open(seed=9, built=built)
    counters = rig.counters()
    assert counters["memory_working_bytes"] == 800_000
    assert counters["memory_used_bytes"] == 800_000 + 2 * 6 * BYTES
    other = rig.hello()
    (build,) = of(rig.send(other, make_open(pipeline="plain")), ins.StartBuild)
    rig.do(ev.Built, make_result(build.request.build, pipeline_id="ef" * 16, **built))
    (error,) = rig.errors(other)
    assert error.code == "resource"
    assert "needs 400000 bytes in each of 2 workers for decoded images and values" in error.message
    assert "resize (jobs.py:3) needs the most, 300000 bytes" in error.message
    assert error.details["op"] == "resize (jobs.py:3)"
    rig.end(first)
    assert rig.counters()["memory_working_bytes"] == 800_000
    rig.end(second)
    assert rig.counters()["memory_working_bytes"] == 0
    assert rig.counters()["memory_used_bytes"] == 0
    rig.open(other, pipeline="plain")
    assert rig.counters()["memory_working_bytes"] == 800_000


def test_kernels_that_are_not_stored_are_one_line_for_the_log_and_each_client(rig):
    for _ in range(2):
        rig.do(ev.KernelsUnstored, "kernel cache /c: No space left on device")
    lines = [log for log in of(rig.said, ins.Log) if log.event == "kernels_not_stored"]
    assert len(lines) == 1
    (opened,) = of(rig.sent(rig.open()), Opened)
    (note,) = opened.notes
    assert note.startswith("kernel cache /c: No space left on device: kernels are compiled again")


def test_kept_results_are_bounded(make_rig):
    rig = make_rig(cached_builds=1)
    for pipeline in ("train", "plain", "train"):
        rig.open(pipeline=pipeline)
    assert rig.counters()["builds_total"] == 3


def test_a_build_with_files_of_users_runs_again_with_the_earlier_result_at_hand(rig):
    """The builder alone can say whether the files are as they were."""
    edits = [(("/code/jobs.py", digest * 32),) for digest in "aab"]
    for code in edits:
        rig.open(built={"code": code})
    found = [start.request.known for start in of(rig.said, ins.StartBuild)]
    assert [known and known.code for known in found] == [None, *edits[:2]]
    rig.open(pipeline="plain")
    assert of(rig.said, ins.StartBuild)[-1].request.known is None


def test_a_failed_build_is_told_and_forgotten(rig, make_open):
    tokens = [rig.hello(), rig.hello()]
    for token in tokens:
        rig.send(token, make_open(request=4))
    rig.do(ev.BuildFailed, 1, "build", "jobs.py:3: no such op", {"op": "flop", "message": "x"})
    for token in tokens:
        (error,) = rig.errors(token)
        assert (error.code, error.message, error.request) == ("build", "jobs.py:3: no such op", 4)
        assert error.details == {"op": "flop", "message": "x"}
    rig.open(tokens[0])
    assert rig.counters()["builds_total"] == 2
    assert rig.do(ev.BuildFailed, 99, "build", "of no stream", {}) == []


def test_a_build_that_nobody_waits_for_is_ended(rig, make_open, make_result):
    first, second = rig.hello(), rig.hello()
    for token in (first, second):
        rig.send(token, make_open())
    assert not of(rig.send(first, Close()), ins.EndBuild)
    assert of(rig.send(second, Close()), ins.EndBuild) == [
        ins.EndBuild(1, "is not wanted any more")
    ]
    assert not rig.core._openings._waiting
    assert rig.counters()["builds"] == 0
    assert rig.do(ev.BuildFailed, 1, "build", "ended", {}) == []
    assert rig.do(ev.Built, make_result(1)) == []
    rig.open()
    assert rig.counters()["builds_total"] == 2


def test_a_build_without_progress_is_ended_and_delays_others_by_one_deadline(make_rig, make_open):
    rig = make_rig(concurrent_builds=1, build_deadline_s=30.0)
    token, other = rig.hello(), rig.hello()
    rig.send(token, make_open())
    rig.send(other, make_open(pipeline="plain"))
    rig.tick(29.0)
    rig.do(ev.BuildProgress, 1)
    assert not of(rig.tick(30.0), ins.EndBuild)
    assert of(rig.tick(0.5), ins.EndBuild) == [ins.EndBuild(1, "made no progress for 30 s")]
    assert not of(rig.tick(60.0), ins.EndBuild)
    said = rig.do(ev.BuildFailed, 1, "build", "it was in hangs (jobs.py:3)", {})
    assert [build.request.build for build in of(said, ins.StartBuild)] == [2]
    assert [error.message for error in rig.errors(token)] == ["it was in hangs (jobs.py:3)"]
    assert rig.do(ev.BuildProgress, 77) == []


def told(rig, token):
    return [(b.request, b.done, b.total) for b in of(rig.sent(token), Building)]


def test_who_asks_for_it_is_told_how_far_a_build_is(rig, make_open, make_result):
    asking, silent = rig.hello(), rig.hello()
    rig.send(asking, make_open(request=5, progress=True))
    rig.send(silent, make_open())
    rig.tick(0.25)
    assert told(rig, asking) == [], "not before half a second"
    rig.tick(0.25)
    assert told(rig, asking) == [(5, 0, 0)], "the number is not known"
    rig.tick(0.5)
    assert told(rig, asking) == [(5, 0, 0)], "nothing new"
    rig.do(ev.BuildProgress, 1, 3, 13)
    rig.do(ev.BuildProgress, 1, 4, 13)
    assert told(rig, asking) == [(5, 0, 0)], "with the next tick"
    rig.tick(0.25)
    rig.do(ev.BuildProgress, 1, 5, 13)
    rig.tick(0.25)
    assert told(rig, asking)[1:] == [(5, 4, 13)], "at most twice a second"
    rig.tick(0.25)
    assert told(rig, asking)[2:] == [(5, 5, 13)]
    rig.do(ev.Built, make_result(1))
    rig.tick(5.0)
    assert len(told(rig, asking)) == 3
    assert told(rig, silent) == []


def test_a_build_that_waits_or_starts_again_has_no_count(make_rig, make_open):
    rig = make_rig(concurrent_builds=1)
    first, second = rig.hello(), rig.hello()
    rig.send(first, make_open(progress=True))
    rig.send(second, make_open(pipeline="plain", progress=True))
    rig.do(ev.BuildProgress, 1, 3, 13)
    rig.tick(0.5)
    rig.do(ev.BuildDied, 1, "killed by signal 9")
    rig.tick(0.5)
    assert told(rig, first) == [(1, 3, 13), (1, 0, 0)]
    assert told(rig, second) == [(1, 0, 0)]


def test_many_builds_of_one_client_that_hang_delay_others_by_one_deadline(make_rig, make_open):
    rig = make_rig(pipelines={f"p{i}": f"m:p{i}" for i in range(9)}, build_deadline_s=30.0)
    tokens = [bytes([n]) * 16 for n in range(9)]
    for n, token in enumerate(tokens):
        process = "host:0:0:8" if n == 8 else "host:0:0:7"
        rig.do(ev.Greeted, b"peer", token, Hello(1, 1, "test"), process)
        rig.do(ev.LifelineUp, token)
        rig.send(token, make_open(pipeline=f"p{n}"))
    assert len(of(rig.said, ins.StartBuild)) == 2
    rig.tick(30.5)
    (build,) = of(rig.do(ev.BuildFailed, 1, "build", "it hangs", {}), ins.StartBuild)
    assert build.request.stream.sources[0].pipeline == "m:p8"
    (build,) = of(rig.do(ev.BuildFailed, 2, "build", "it hangs", {}), ins.StartBuild)
    assert build.request.stream.sources[0].pipeline == "m:p2"


def test_a_build_that_is_killed_starts_again_until_a_deadline(make_rig, make_open):
    rig = make_rig(start_deadline_s=2.0)
    token = rig.hello()
    (build,) = of(rig.send(token, make_open()), ins.StartBuild)
    for pause in (0.25, 0.5, 1.0, 2.0):
        assert not of(rig.do(ev.BuildDied, 1, "killed by SIGKILL"), ins.StartBuild)
        assert not rig.errors(token)
        assert not of(rig.tick(pause / 2), ins.StartBuild)
        assert of(rig.tick(pause / 2), ins.StartBuild) == [build]
    rig.do(ev.BuildDied, 1, "killed by SIGKILL")
    (error,) = rig.errors(token)
    assert error.code == "resource"
    assert "was killed 5 times in a row, the last: killed by SIGKILL" in error.message
    assert rig.counters()["builds"] == 0
    assert rig.do(ev.BuildDied, 1, "killed by SIGKILL") == []


def test_no_client_waits_for_a_build_that_pauses_after_a_death(rig, make_open):
    token = rig.hello()
    rig.send(token, make_open())
    rig.do(ev.BuildDied, 1, "killed by SIGKILL")
    rig.end(token)
    assert rig.counters()["builds"] == 0
    assert not of(rig.tick(60.0), ins.StartBuild)


@pytest.mark.parametrize(
    ("built", "changes", "message"),
    [
        ({"rows": 10}, {}, "a global batch of 16 from 10 samples leaves no step"),
        ({"rows": 0}, {}, "dataset_rows: expected an integer from 1"),
        ({}, {"seed": 2**64}, "seed: expected an integer from 0 to 18446744073709551615"),
    ],
)
def test_what_the_build_shows_to_be_impossible(
    rig, make_open, make_result, built, changes, message
):
    token = rig.hello()
    rig.send(token, make_open(request=6, **changes))
    rig.do(ev.Built, make_result(1, **built))
    (error,) = rig.errors(token)
    assert (error.code, error.request) == ("usage", 6)
    assert message in error.message
    assert rig.counters()["memory_used_bytes"] == rig.counters()["streams"] == 0
    (again,) = of(rig.send(token, make_open(request=7, batch_size=1)), ins.ReserveSlab) or [None]
    assert (again is not None) == bool(built.get("rows", 50))


@pytest.mark.parametrize(("reads", "kept"), [(True, 90), (False, None)])
def test_total_epochs_counts_where_the_pipeline_reads_it(rig, reads, kept):
    token = rig.open(built={"reads_schedule": reads}, total_epochs=90)
    (opened,) = of(rig.sent(token), Opened)
    assert opened.spec["total_epochs"] == kept


def test_total_epochs_is_asked_for_where_the_pipeline_reads_it(rig, make_open, make_result):
    token = rig.hello()
    (build,) = of(rig.send(token, make_open()), ins.StartBuild)
    rig.do(ev.Built, make_result(build.request.build, reads_schedule=True))
    (error,) = rig.errors(token)
    assert error.code == "usage"
    assert error.message == (
        "the pipeline reads ctx.progress, so the length of the training must be known: give "
        "total_epochs= to the Loader"
    )


def test_what_the_request_says_is_in_the_spec(rig):
    token = rig.open(
        tail="pad", shuffle=False, seed=11, freeze={"flip": "epoch", "crop": 3}, views=2,
        on_error="mask", batch_size=20, built={"streams": ("crop", "flip")},
    )  # fmt: skip
    (opened,) = of(rig.sent(token), Opened)
    spec = opened.spec
    assert (spec["tail"], spec["seed"], spec["views"], spec["on_error"]) == ("pad", 11, 2, "mask")
    assert spec["order"]["shuffle"] is False
    assert spec["freeze"] == {"flip": "epoch", "crop": 3}
    assert (opened.steps, opened.rows, opened.first_row) == (3, 40, 0)
    assert spec["exclude"] is None


def test_excluded_samples_are_in_the_spec_and_reach_workers_and_builders(rig, make_open):
    """A plan of buckets depends on them, the build of a plain stream does not."""
    rig.up(1)
    token = rig.open(batch_size=20, tail="pad", exclude=ids(7, 49))
    (opened,) = of(rig.sent(token), Opened)
    assert opened.spec["exclude"] == Excluded([7, 49]).digest
    assert opened.steps == 3
    other = rig.open(batch_size=20, tail="pad", exclude=ids(*range(10)))
    assert of(rig.sent(other), Opened)[0].steps == 2
    assert len(of(rig.said, ins.StartBuild)) == 1
    rig.run(token, granted=1)
    told = of(rig.said, ins.TellStream)
    assert {selection(one).exclude for one in told} == {ids(7, 49)}
    buckets = Buckets(max_area=64 * 64)
    rig.send(rig.hello(), make_open(buckets=buckets, exclude=ids(7)))
    assert wanted(rig).selection.exclude == ids(7)


def test_a_subset_is_built_apart_and_reaches_workers(rig):
    """Its digest takes long to compute, so a builder does; each subset is a build of its own."""
    rig.up(1)
    subset = Subset([1, 2, 49]).to_bytes()
    left_out = Subset([1, 2, 49]).excluded(50)
    token = rig.open(batch_size=2, subset=subset, built={"excluded": left_out.digest})
    (opened,) = of(rig.sent(token), Opened)
    assert opened.spec["exclude"] == left_out.digest
    assert opened.steps == 1
    assert wanted(rig).selection.subset == subset
    rig.run(token, granted=1)
    assert {selection(one).subset for one in of(rig.said, ins.TellStream)} == {subset}
    rig.open(batch_size=2)
    assert len(of(rig.said, ins.StartBuild)) == 2


def test_a_split_becomes_a_subset_of_ids(rig, make_result):
    """The builder resolves its name, also with an exclude list; workers get the ids."""
    rig.up(1)
    bitmap = Subset([1, 49]).to_bytes()
    (source,) = make_result(1).sources
    source = msgspec.structs.replace(source, selection=Selection(subset=bitmap))
    built = {"excluded": Subset([1, 49]).excluded(50).digest, "sources": (source,)}
    token = rig.open(batch_size=2, split="train", exclude=ids(2), built=built)
    asked = wanted(rig).selection
    assert (asked.split, asked.exclude) == ("train", ids(2))
    rig.run(token, granted=1)
    told = of(rig.said, ins.TellStream)
    assert {selection(one) for one in told} == {Selection(subset=bitmap)}
    (opened,) = of(rig.sent(token), Opened)
    assert opened.spec["exclude"] == built["excluded"]
    rig.open(batch_size=2, split="train", exclude=ids(3), built=built)
    assert len(of(rig.said, ins.StartBuild)) == 2


def test_an_exclude_list_of_another_dataset(rig, make_open):
    rig.end(rig.open())
    message = refused(rig, make_open, exclude=ids(50))[1]
    assert "has 50 samples, ids 0 to 49; the list names 50: does it belong to another" in message
    message = refused(rig, make_open, exclude=ids(*range(50)))[1]
    assert "the list names all 50 samples" in message


def test_a_frozen_stream_must_exist(rig, make_open, make_result):
    token = rig.hello()
    (build,) = of(rig.send(token, make_open(freeze={"flop": 1})), ins.StartBuild)
    rig.do(ev.Built, make_result(build.request.build, streams=("crop", "flip")))
    (error,) = rig.errors(token)
    assert error.code == "unknown_name"
    assert error.message == (
        "there is no stream 'flop', did you mean 'flip'?; this pipeline has 'crop', 'flip'"
    )


@pytest.mark.parametrize(("rank", "first", "rows"), [(0, 0, 10), (1, 10, 11), (2, 21, 11)])
def test_ranks_cut_the_rows_of_the_global_batch(rig, rank, first, rows):
    token = rig.open(rank=rank, world_size=3, views=2)
    (opened,) = of(rig.sent(token), Opened)
    assert (opened.first_row, opened.rows) == (first, rows)
    rig.run(token, granted=1)
    work = [one for worker in (1, 2) for one in rig.claims(worker)]
    assert min(one.row_lo for one in work) == first
    rig.work()
    assert rig.ready(token)[0].rows == rows


def test_memory_does_not_suffice(make_rig, make_open, make_result):
    rig = make_rig(memory_limit_bytes=10 * BYTES)
    first = rig.open()  # 6 slots
    token = rig.hello()
    rig.send(token, make_open(request=8))
    (error,) = rig.errors(token)
    assert (error.code, error.request) == ("resource", 8)
    assert "needed 24576 bytes (6 batches of 4096: those prefetched, those that" in error.message
    assert "allowed 16384 (memory.limit 40960, used 24576)" in error.message
    assert "use a smaller batch size or prefetch" in error.message
    assert error.details == {
        "needed_bytes": 24576, "allowed_bytes": 16384, "limit_bytes": 40960
    }  # fmt: skip
    rig.send(first, Close())
    rig.open(token)


def test_a_session_may_have_a_limit_of_its_own(make_rig, make_open):
    rig = make_rig(session_limit_bytes=6 * BYTES)
    rig.open()  # 6 slots
    token = rig.hello()
    rig.send(token, make_open(request=8, prefetch=4))
    (error,) = rig.errors(token)
    assert (error.code, error.request) == ("resource", 8)
    assert "one session: needed 28672 bytes (7 batches of 4096: those pre" in error.message
    assert "allowed 24576; use a smaller batch size or prefetch" in error.message
    assert "raise memory.session_limit" in error.message
    assert error.details == {
        "needed_bytes": 28672, "allowed_bytes": 24576, "limit_bytes": 24576
    }  # fmt: skip
    assert rig.counters()["memory_used_bytes"] == 6 * BYTES
    rig.open(token)
    assert rig.counters()["memory_used_bytes"] == 12 * BYTES, "each session has its own"


def test_what_the_daemon_chooses_fits_into_the_limit_of_a_session(make_rig):
    rig = make_rig(session_limit_bytes=7 * BYTES, ahead_slot_bytes=BYTES)
    token = rig.open(prefetch=5, leases=2, prefetch_bytes=100 * BYTES)
    (opened,) = of(rig.sent(token), Opened)
    assert (opened.prefetch, opened.slots) == (4, 7), "and no extra slots for brief batches"


@pytest.mark.parametrize(
    ("small", "memory", "slots"),
    [(BYTES, 2**20, 14), (BYTES - 1, 2**20, 6), (BYTES, 14 * BYTES, 14), (BYTES, 13 * BYTES, 6)],
)
def test_small_slots_are_more_where_there_is_memory(make_rig, small, memory, slots):
    rig = make_rig(ahead_slot_bytes=small, memory_limit_bytes=memory)
    token = rig.open()
    assert [one.slots for one in rig.sent(token) if isinstance(one, Opened)] == [slots]
    assert rig.counters()["memory_used_bytes"] == slots * BYTES


def test_the_kernel_refuses_a_slab(rig, make_open, make_result):
    token = rig.hello()
    rig.send(token, make_open(request=3))
    rig.do(ev.Built, make_result(1))
    rig.do(ev.SlabRefused, 1, "fallocate: 12 of 24 KiB")
    (error,) = rig.errors(token)
    assert (error.code, error.request) == ("resource", 3)
    expected = "refused 24576 bytes for 6 slots: fallocate: 12 of 24 KiB; use a smaller"
    assert expected in error.message
    assert rig.counters()["memory_used_bytes"] == rig.counters()["groups"] == 0
    rig.open(token)


@pytest.mark.parametrize("comes", [True, False])
def test_a_session_that_ends_before_its_slab_is_there(rig, make_open, make_result, comes):
    token = rig.hello()
    rig.send(token, make_open())
    rig.do(ev.Built, make_result(1))
    rig.do(ev.LifelineDown, token)
    assert rig.counters()["memory_used_bytes"] == 6 * BYTES
    if comes:
        assert rig.do(ev.SlabReserved, 1) == [ins.FreeSlab(1)]
    else:
        assert rig.do(ev.SlabRefused, 1, "no") == []
    assert rig.counters()["memory_used_bytes"] == rig.counters()["groups"] == 0
    assert rig.do(ev.SlabReserved, 9) == rig.do(ev.SlabRefused, 9, "?") == []


@pytest.mark.parametrize(
    ("slots", "chosen"),
    [(1, 2), (5, 2), (5.9, 2), (6, 3), (8, 5), (100, 5)],
    ids=lambda value: f"{value:g}",
)
def test_the_client_may_leave_prefetch_to_the_daemon(make_rig, slots: float, chosen: int):
    """As many as the size of the slab allows, together with leases and spare: 2 to `prefetch`."""
    rig = make_rig()
    token = rig.open(prefetch=5, leases=2, prefetch_bytes=int(slots * BYTES))
    (opened,) = of(rig.sent(token), Opened)
    assert (opened.prefetch, opened.slots) == (chosen, chosen + 3)


def test_what_the_daemon_chooses_fits_into_its_memory(make_rig, make_open):
    rig = make_rig(memory_limit_bytes=41 * BYTES)
    for expected in (7, 4, 4, 4, 4):  # a quarter of 41 slots; then 7 of 31, 24, 17 and 10
        token = rig.open(prefetch=16, leases=2, prefetch_bytes=100 * BYTES)
        (opened,) = of(rig.sent(token), Opened)
        assert opened.prefetch == expected
    rig = make_rig(memory_limit_bytes=12 * BYTES)
    for expected in (4, 2):  # 7 slots, then 5
        token = rig.open(prefetch=5, leases=2, prefetch_bytes=100 * BYTES)
        (opened,) = of(rig.sent(token), Opened)
        assert opened.prefetch == expected
    token = rig.hello()
    rig.send(token, make_open(prefetch=5, leases=2, prefetch_bytes=100 * BYTES))
    (error,) = rig.errors(token)
    assert "needed 20480 bytes (5 batches of 4096" in error.message, "not even two fit"


def test_the_slab_holds_prefetch_leases_and_a_spare(rig):
    token = rig.open(prefetch=7, leases=4)
    (opened,) = of(rig.sent(token), Opened)
    assert opened.slots == 12
    layout = slot_layout(tuple(opened.outputs), 16)
    assert of(rig.said, ins.ReserveSlab)[-1].size_bytes == 12 * layout.slot_bytes


DRAWN = (Drawn("crop", "random_crop", 0, (DrawnField("top", "int32", (), 1),)),)


def opened(rig, make_result, built, **changes):
    token = rig.open(built=built, **changes)
    (record,) = of(rig.sent(token), Opened)
    return token, record


def test_draw_records_are_one_more_output_for_who_asks(rig, make_result):
    built = {"drawn": DRAWN, "params_bytes": 5}
    _, plain = opened(rig, make_result, built)
    token, record = opened(rig, make_result, built, params=True)
    assert (plain.drawn, record.drawn) == ([], list(DRAWN))
    assert record.outputs == [*plain.outputs, Output("params", "uint8", (5,), "params")]
    assert record.stream == plain.stream, "they do not belong to the stream"
    rig.run(token)
    rig.work()
    told = [one.stream for one in of(rig.said, ins.TellStream)]
    assert {one.params for one in told} == {True}
    assert "params" in {placed.name for placed in rig.ready(token)[0].outputs}


def test_who_asks_for_draw_records_of_nothing_gets_none(rig, make_result):
    _, record = opened(rig, make_result, {}, params=True)
    assert record.drawn == []
    assert "params" not in {output.name for output in record.outputs}


@pytest.mark.parametrize(
    ("built", "message"),
    [
        (
            {"drawn": DRAWN * 2, "params_bytes": 5},
            "params=True: the draw records of this pipeline do not fit a batch: params: "
            "expected distinct decision names",
        ),
        (
            {"drawn": (Drawn("n" * 300, "op", 0, ()),), "params_bytes": 1},
            "Expected `str` of length <= 272",
        ),
        (
            {
                "drawn": DRAWN,
                "params_bytes": 5,
                "outputs": (Output("params", "uint8", (1,)),),
            },
            "output 'params': the name is reserved or used twice",
        ),
    ],
)
def test_draw_records_that_cannot_be_sent_are_refused(rig, make_open, make_result, built, message):
    token = rig.hello()
    (build,) = of(rig.send(token, make_open(request=5, params=True)), ins.StartBuild)
    rig.do(ev.Built, make_result(build.request.build, **built))
    (error,) = rig.errors(token)
    assert (error.request, error.code) == (5, "usage")
    assert message in error.message
    assert rig.counters()["memory_used_bytes"] == 0


def test_weights_are_built_apart_and_reach_workers(rig):
    """With them an exclude list matters to the build; every batch says how its rows are drawn."""
    rig.up(1)
    weights, digest = b'{"field":"weight"}', "a" * 32
    built = {"excluded": Excluded([3, 4]).digest, "weights": digest}
    token = rig.open(batch_size=2, weights=weights, exclude=ids(3), built=built)
    (opened,) = of(rig.sent(token), Opened)
    assert opened.spec["order"]["kind"] == "weighted"
    assert opened.spec["order"]["weights"] == digest
    assert opened.spec["exclude"] == built["excluded"]
    assert opened.steps == 24
    assert opened.outputs[-1].name == "drawn_as"
    assert wanted(rig).selection == Selection(weights=weights, exclude=ids(3))
    rig.run(token, granted=1)
    assert {selection(one).weights for one in of(rig.said, ins.TellStream)} == {weights}
    rig.open(batch_size=2, weights=weights, exclude=ids(5), built=built)
    assert len(of(rig.said, ins.StartBuild)) == 2


def test_a_block_shuffle(rig):
    token = rig.open(shuffle_block=7)
    (opened,) = of(rig.sent(token), Opened)
    rig.end(token)
    assert opened.spec["order"]["block"] == 7


def test_a_seed_of_the_order(rig):
    """One that equals the stream's is the same stream as none."""
    ids = []
    for seed in (None, 7, 8):
        token = rig.open(seed=7, shuffle_seed=seed)
        (opened,) = of(rig.sent(token), Opened)
        rig.end(token)
        assert opened.spec["order"].get("seed") == (8 if seed == 8 else None)
        ids.append(opened.stream)
    assert ids[0] == ids[1] != ids[2]
    built, weighted = {"weights": "a" * 32}, {"weights": b'{"field":"weight"}', "shuffle": False}
    token = rig.open(seed=7, shuffle_seed=3, built=built, **weighted)
    (opened,) = of(rig.sent(token), Opened)
    assert opened.spec["order"]["seed"] == 3, "it draws which samples come once more"


PHOTOS = [("photos", 1.0, "train")]
MIXED = {"photos": "/data/photos", "drawings": "/data/drawings"}


def test_a_mixture(make_rig):
    """All of its datasets are built together; workers get each with its path and share."""
    rig = make_rig(datasets=MIXED)
    rig.up(1)
    parts = (
        BuiltSource(
            "/data/photos", "content:" + "1" * 32, 30, "2" * 32, b"g", name="photos", share=1000
        ),
        BuiltSource(
            "/data/drawings", "content:" + "3" * 32, 20, "4" * 32, b"h", name="drawings", share=1000
        ),
    )
    built = {"mix": "5" * 32, "sources": parts}
    token = rig.open(batch_size=2, mix=[*PHOTOS, ("drawings", 1.0, "train")], built=built)
    part = wanted(rig)
    assert (part.name, part.dataset, part.ratio) == ("photos", "/data/photos", 1.0)
    assert of(rig.said, ins.StartBuild)[-1].request.stream.batch_size == 2
    (opened,) = of(rig.sent(token), Opened)
    assert (opened.spec["mix"], opened.spec["tail"]) == ("5" * 32, "drop")
    assert opened.mix == [("photos", 30), ("drawings", 20)]
    assert (opened.steps, opened.outputs[-1].name) == (25, "drawn_as")
    rig.run(token, granted=1)
    assert {one.stream.served.sources for one in of(rig.said, ins.TellStream)} == {parts}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mix": [("nothing", 1.0, "train")]}, "there is no dataset 'nothing'"),
        ({"mix": [*PHOTOS, *PHOTOS]}, "mix: expected the name of each dataset, and each once"),
        ({"mix": [("", 1.0, "train")]}, "mix: expected the name of each dataset, and each once"),
        ({"mix": [*PHOTOS, ("b", None, "train")]}, "mix: expected a ratio of each of the datasets"),
    ],
)
def test_streams_that_cannot_be(rig, make_open, changes, message):
    assert refused(rig, make_open, **changes)[1].startswith(message)


def test_every_refusal_reaches_the_client(rig, make_open):
    """The daemon checks the table; tests/client walks it with a Loader."""
    ways = {
        "block": {"shuffle_block": 7}, "in order": {"shuffle": False}, "padded": {"tail": "pad"},
        "dropped leftovers": {"buckets": Buckets(max_area=64 * 64, leftovers="drop")},
    }  # fmt: skip
    for refusal in REFUSALS:
        names = [CHOICES[name].field for name in (refusal.one, refusal.other)]
        if all(names):
            code, message = refused(rig, make_open, **ways[refusal.one], **ways[refusal.other])
            assert code == "usage"
            assert message.startswith(f"open: {names[0]} and {names[1]}")
            assert refusal.why in message


def selection(told):
    return told.stream.served.sources[0].selection


def pipelines(rig):
    return [one.request.stream.sources[0].pipeline for one in of(rig.said, ins.StartBuild)]


def wanted(rig):
    """The first source of the last build that was asked for."""
    return of(rig.said, ins.StartBuild)[-1].request.stream.sources[0]
