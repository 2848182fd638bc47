"""Streams with buckets in the daemon: builds, slots for the largest, layouts of each batch."""

import pytest

from stoker.order.buckets.turns import BucketTurns
from stoker.protocol.accounts import epoch_account
from stoker.protocol.messages import Opened
from stoker.protocol.size_buckets import DRAWN_AS, Bucket, Buckets, BucketSteps
from stoker.protocol.slot_layout import Output, slot_layout
from stoker.protocol.spec import StreamSpec
from stoker.server.state import core_instructions as ins
from stoker.server.work.cuts import room_for
from stoker.server.work.work_records import BuildRequest, SourceToBuild, StreamToBuild

REQUEST = Buckets(max_area=16 * 16, divisor=8, constant="pixels")
PLAN = (Bucket(8, 24, 17, 21, 17), Bucket(16, 16, 25, 16, 25), Bucket(24, 8, 8, 21, 8))
OUTPUTS = tuple((Output("image", "uint8", (b.height, b.width, 3), "image"),) for b in PLAN)
BUILT = {
    "outputs": room_for(OUTPUTS), "bucket_plan": "b" * 32, "buckets": PLAN,
    "bucket_outputs": OUTPUTS,
}  # fmt: skip


@pytest.fixture
def opened(rig):
    """open(**changes) -> (token, its OPENED)."""

    def make(**changes):
        token = rig.open(built=BUILT, buckets=REQUEST, **changes)
        return token, next(r for r in rig.sent(token) if isinstance(r, Opened))

    return make


def test_a_build_is_asked_for_with_the_request_and_the_batch_size(rig, opened):
    opened()
    asked = [one.request for one in rig.said if isinstance(one, ins.StartBuild)]
    photos = SourceToBuild("/data/photos", "jobs:train")
    assert asked == [BuildRequest(1, StreamToBuild((photos,), REQUEST, 16))]
    opened()
    opened(batch_size=17)
    asked = [one.request for one in rig.said if isinstance(one, ins.StartBuild)]
    assert [one.stream.batch_size for one in asked] == [16, 17]


def test_opened_has_the_plan_and_room_for_the_largest(rig, opened):
    _, said = opened()
    assert said.spec["buckets"] == "b" * 32
    assert (said.buckets, said.leftovers) == (list(PLAN), "carry")
    assert said.steps == BucketSteps(PLAN, "carry").steps(0)
    largest = max(
        slot_layout((*outputs, DRAWN_AS), bucket.positions).slot_bytes
        for outputs, bucket in zip(OUTPUTS, PLAN, strict=True)
    )
    assert said.slot_bytes == largest
    assert said.outputs[0].shape == (24, 24, 3)
    assert said.outputs[0].varies == (0, 1)


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (1, 3)])
def test_every_batch_has_the_layout_of_its_bucket(rig, opened, rank, world_size):
    token, said = opened(rank=rank, world_size=world_size)
    spec = StreamSpec.from_data(said.spec)
    turns = BucketTurns(spec, PLAN, "carry")
    expected = [(e, s) for e in range(20) for s in range(turns.steps(e))][:24]
    assert len({turns.steps(epoch) for epoch in range(20)}) > 1
    rig.run(token, granted=24)
    while len(rig.ready(token)) < 24:
        rig.work()
        rig.release(token, *rig.ready(token)[-4:])
    batches = rig.ready(token)[:24]
    assert [(b.epoch, b.step) for b in batches] == expected
    for batch in batches:
        number = turns.turn(batch.epoch, batch.step).bucket
        total = PLAN[number].positions
        rows = (rank + 1) * total // world_size - rank * total // world_size
        assert batch.rows == rows
        assert batch.outputs == list(slot_layout((*OUTPUTS[number], DRAWN_AS), rows).outputs)
        assert batch.outputs[-1].offset + batch.outputs[-1].size_bytes <= said.slot_bytes


def test_a_place_beyond_an_epochs_own_end_is_refused(rig, opened):
    token, _ = opened()
    steps = [BucketSteps(PLAN, "carry").steps(epoch) for epoch in range(3)]
    epoch = max(range(3), key=steps.__getitem__)
    rig.run(token, run=1, epoch=epoch, step=steps[epoch])
    assert not rig.errors(token)
    least = min(range(3), key=steps.__getitem__)
    assert steps[least] + 1 <= steps[epoch]
    rig.run(token, run=2, epoch=least, step=steps[least] + 1)
    (error,) = rig.errors(token)
    assert f"SEEK: expected a step from 0 to {steps[least]}" in error.message


def test_a_row_that_kills_workers_is_named_by_its_bucket(rig, opened):
    token, said = opened()
    rig.run(token, granted=1)
    rig.die(1, blame=True, row=1)
    rig.finish(2)
    rig.tick(40)
    rig.up(3)
    alone = next(n for n in (2, 3) for w in rig.claims(n) if (w.row_lo, w.row_hi) == (1, 2))
    while rig.claims(alone)[0].row_hi != 2:
        rig.finish(alone)
    rig.die(alone, blame=True)
    (error,) = rig.errors(token)
    bucket = PLAN[BucketTurns(StreamSpec.from_data(said.spec), PLAN, "carry").turn(0, 0).bucket]
    assert f"(a sample of bucket {bucket.width}x{bucket.height} of dataset" in error.message
    assert error.details["id"] is None


@pytest.mark.parametrize(
    ("leftovers", "tail"), [("carry", "drop"), ("drop", "drop"), ("carry", "pad")]
)
def test_epochs_are_counted_with_what_they_leave(rig, leftovers, tail):
    steps = BucketSteps(PLAN, "pad" if tail == "pad" else leftovers)
    count = sum(steps.steps(epoch) for epoch in range(3))
    tokens = [
        rig.open(
            built={**BUILT, "leftovers": leftovers}, buckets=REQUEST, tail=tail, rank=rank,
            world_size=2,
        )
        for rank in range(2)
    ]  # fmt: skip
    for token in tokens:
        rig.run(token, granted=count)
        while len(rig.ready(token)) < count:
            rig.work()
            rig.release(token, *rig.ready(token)[-4:])
    accounts = [epoch_account(steps, epoch) for epoch in range(3)]
    found = rig.counters()
    assert found["epochs_total"] == 3, "each once, not for each rank"
    assert found["carried_samples_total"] == sum(one.carried_out for one in accounts)
    assert found["dropped_samples_total"] == sum(one.dropped for one in accounts)
    assert found["padded_positions_total"] == sum(one.padded for one in accounts)
    assert sum(one.carried_out + one.dropped + one.padded for one in accounts) > 0
