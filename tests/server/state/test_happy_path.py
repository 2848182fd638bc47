"""From HELLO to CLOSE with nothing going wrong."""

from stoker.protocol.messages import Close, Credit, Opened, Welcome
from stoker.protocol.slot_layout import slot_layout
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.work.work_records import (
    BuildRequest,
    BuiltSource,
    Done,
    OpenStream,
    ServedStream,
    SourceToBuild,
    StreamToBuild,
)


def test_start_starts_the_workers(make_rig):
    rig = make_rig(workers=3)
    assert rig.said == [ins.StartWorker(1), ins.StartWorker(2), ins.StartWorker(3)]


def test_the_whole_way(make_rig, make_open, make_result):
    rig = make_rig(workers=1)
    rig.up(1)
    token = rig.hello()
    said = rig.send(token, make_open())
    photos = SourceToBuild("/data/photos", "jobs:train")
    assert said == [ins.StartBuild(BuildRequest(1, StreamToBuild((photos,))))]

    built = make_result(1)
    layout = slot_layout(built.outputs, 16)
    said = rig.do(ev.Built, built)
    assert said == [ins.ReserveSlab(1, *[6 * layout.slot_bytes] * 3)]
    assert rig.counters()["memory_used_bytes"] == 6 * layout.slot_bytes

    spec = StreamSpec(
        dataset=built.fingerprint, dataset_rows=50, pipeline=built.pipeline_id, batch_size=16,
        order=OrderSpec(shuffle=True), tail="drop", seed=7,
    )  # fmt: skip
    said = rig.do(ev.SlabReserved, 1)
    assert said[:2] == [
        ins.SendSlab(token, 1, 6, layout.slot_bytes, writable=True),
        ins.Send(
            token,
            (
                Opened(
                    request=1, spec=spec.to_data(), stream=spec.stream_id, steps=3, rows=16,
                    first_row=0, slab=1, slots=6, slot_bytes=layout.slot_bytes,
                    outputs=list(built.outputs), prefetch=3,
                    crash_policy="raise", integrity="auto",
                ),
            ),
        ),
    ]  # fmt: skip

    said = rig.run(token, epoch=4, step=2, granted=2)
    tell, assign = said
    source = BuiltSource("/data/photos", built.fingerprint, 50, built.pipeline_id, b"graph")
    record = OpenStream(1, ServedStream(spec, (source,)), layout, 0)
    assert tell == ins.TellStream(1, record, 1, 6 * layout.slot_bytes)
    first, second = assign.work
    assert (first.epoch, first.step, first.row_lo, first.row_hi) == (4, 2, 0, 4)
    assert (second.row_lo, second.row_hi) == (4, 8)
    assert first.offset == first.slot * layout.slot_bytes
    assert first.size_bytes == layout.slot_bytes

    rig.work((1,))
    batches = rig.ready(token)
    assert [(b.run, b.epoch, b.step) for b in batches] == [(1, 4, 2), (1, 5, 0)]
    assert all(b.stream == spec.stream_id and b.slab == 1 and b.rows == 16 for b in batches)
    assert batches[0].outputs == list(layout.outputs)
    assert (batches[0].slot, batches[0].generation) == (first.slot, first.generation)

    rig.release(token, *batches)
    assert rig.counters()["leased_slots"] == 0
    said = rig.send(token, Close())
    assert said[:3] == [ins.ForgetStream(1, 1, 1), ins.FreeSlab(1), ins.EndSession(token)]
    assert rig.counters()["memory_used_bytes"] == 0
    assert rig.counters()["sessions"] == 0
    assert rig.counters()["batches_total"] == 2
    assert rig.counters()["rows_total"] == 32


def test_delivery_goes_on_across_epochs_for_as_long_as_credits_come(rig):
    token = rig.open()
    rig.run(token, granted=2)
    for _ in range(20):
        rig.work()
        batches = rig.ready(token)
        rig.release(token, *batches[-2:])
        rig.send(token, Credit(1, 2))
    places = [(b.epoch, b.step) for b in rig.ready(token)]
    assert places == [(i // 3, i % 3) for i in range(40)]


def test_rows_are_counted_as_home_and_stolen(rig):
    token = rig.open()
    rig.run(token, granted=1)
    claim = rig.claims(1)[0]
    rig.finish(1, home_rows=claim.row_hi - claim.row_lo - 1, decodes=7)
    counters = rig.counters()
    assert counters["rows_total"] == claim.row_hi - claim.row_lo
    assert counters["stolen_rows_total"] == 1
    assert counters["home_rows_total"] == counters["rows_total"] - 1
    assert counters["chunks_total"] == 1
    assert counters["decodes_total"] == 7


def test_a_result_that_nobody_waits_for_is_counted(rig):
    assert rig.do(ev.ChunkDone, 1, Done(99, 0.1, 0)) == []
    assert rig.do(ev.ChunkDone, 77, Done(1, 0.1, 0)) == []
    assert rig.counters()["stale_results_total"] == 2


def test_welcome_has_the_token(rig):
    token = rig.hello()
    welcome = rig.said[-1].records[0]
    assert isinstance(welcome, Welcome)
    assert welcome.token == token
