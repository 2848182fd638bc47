"""Samples that crash workers, where the operator has them replaced."""

import pytest
from decided import of

from stoker.order.compose import dataset_order
from stoker.protocol.cursor import MAX_CRASHED
from stoker.protocol.exclude import Excluded
from stoker.protocol.messages import Credit, Opened, Seek
from stoker.protocol.spec import StreamSpec
from stoker.server.state import core_instructions as ins
from stoker.server.work.work_records import BuiltSource


def places(batches):
    return [(batch.epoch, batch.step, batch.crashed) for batch in batches]


@pytest.fixture
def lone(make_rig):
    """One worker at a time with one claim at a time; samples that crash it are replaced."""
    rig = make_rig(workers=1, outstanding=1, crash_policy="replace")
    rig.up(1)
    return rig


class Crashes:
    """The workers of a rig, one after the other."""

    def __init__(self, rig):
        self.rig, self.worker = rig, 1

    def crash(self, row, sample, times=2, blame=True):
        """Go on to a row, and die there."""
        for _ in range(times):
            while not self.head[0] <= row < self.head[1]:
                self.rig.finish(self.worker)
            self.rig.die(self.worker, blame=blame, row=row, sample=sample)
            self.rig.tick(40)
            self.worker += 1
            self.rig.up(self.worker)

    @property
    def head(self):
        claim = self.rig.claims(self.worker)[0]
        return claim.row_lo, claim.row_hi


def test_the_stream_goes_on_without_the_sample(lone):
    token = lone.open(batch_size=16)
    crashes = Crashes(lone)
    lone.run(token, granted=3)
    crashes.crash(row=5, sample=33)
    lone.work((crashes.worker,))
    assert not lone.errors(token)
    assert places(lone.ready(token)) == [(0, 0, [33]), (0, 1, [33]), (0, 2, [33])]
    works = [work for one in of(lone.said, ins.Assign) for work in one.work]
    after = [work for work in works if work.crashed]
    assert {work.crashed for work in after} == {(33,)}
    assert sum(work.row_hi - work.row_lo for work in after) == 48, "the whole step is done again"
    (quarantined,) = of(lone.said, ins.Quarantine)
    assert [bad.id for bad in quarantined.bad] == [33]
    assert quarantined.bad[0].reason == "it killed or hung a worker 2 times, the last: signal 11"
    (logged,) = [one for one in of(lone.said, ins.Log) if one.event == "sample_crashed"]
    assert logged.facts["id"] == 33
    assert lone.counters()["crashed_samples_total"] == 1


def test_what_was_announced_before_stays(lone):
    """All ranks go on with the substitute: from the step of the crash on, not before."""
    first, other = (lone.open(rank=rank, world_size=2, batch_size=16) for rank in (0, 1))
    lone.run(first, granted=2)
    lone.work((1,))
    lone.send(first, Credit(1, 3))
    crashes = Crashes(lone)
    crashes.crash(row=3, sample=7)  # in step 2 of rank 0
    lone.work((crashes.worker,))
    lone.run(other, granted=4)
    lone.work((crashes.worker,))
    expected = [(0, 0, []), (0, 1, []), (0, 2, [7]), (1, 0, [7])]
    assert places(lone.ready(first))[:4] == expected
    assert places(lone.ready(other)) == expected


def test_a_row_of_which_no_sample_is_known(lone):
    """If a worker did not report a sample, the order decides which sample the row shows."""
    token = lone.open(batch_size=16, exclude=Excluded([3, 4]).to_bytes())
    spec = StreamSpec.from_data(of(lone.sent(token), Opened)[0].spec)
    lone.run(token, granted=1)
    crashes = Crashes(lone)
    crashes.crash(row=5, sample=None)
    lone.work((crashes.worker,))
    order = dataset_order(spec, excluded=Excluded([3, 4]))
    expected = int(order.rows(0, 0, 5, 6).ids[0])
    assert places(lone.ready(token)) == [(0, 0, [expected])]


def test_a_substitute_that_crashes_too_is_replaced_too(lone):
    token = lone.open(batch_size=16)
    crashes = Crashes(lone)
    lone.run(token, granted=1)
    crashes.crash(row=5, sample=33)
    crashes.crash(row=5, sample=12)
    lone.work((crashes.worker,))
    assert places(lone.ready(token)) == [(0, 0, [12, 33])]


def test_a_sample_that_is_replaced_and_crashes_all_the_same_stops_the_stream(lone):
    token = lone.open(batch_size=16)
    crashes = Crashes(lone)
    lone.run(token, granted=1)
    crashes.crash(row=5, sample=33)
    crashes.crash(row=5, sample=33)
    (error,) = lone.errors(token)
    assert error.code == "stream_stopped"
    assert error.message.endswith("leave it out: Loader(exclude=[33])")


def test_deaths_without_blame_come_to_the_same_end(lone):
    token = lone.open(batch_size=1)
    crashes = Crashes(lone)
    lone.run(token, granted=1)
    crashes.crash(row=0, sample=9, times=8, blame=False)
    lone.work((crashes.worker,))
    assert places(lone.ready(token)) == [(0, 0, [9])]


def test_a_later_batch_that_failed_is_computed_again(make_rig):
    """It may be good with another sample in it, so it does not end the run."""
    rig = make_rig(workers=2, outstanding=1, crash_policy="replace")
    rig.up(1, 2)
    token = rig.open(batch_size=16)
    rig.run(token, granted=3)
    while rig.claims(2)[0].step == 0:
        rig.finish(2)
    rig.fail(2)
    rig.die(1, blame=True, row=0, sample=33)
    rig.die(2, blame=True, row=0, sample=33)
    rig.tick(40)
    rig.up(3, 4)
    rig.work((3, 4))
    assert not rig.errors(token)
    assert places(rig.ready(token)) == [(0, 0, [33]), (0, 1, [33]), (0, 2, [33])]


def test_a_failed_batch_does_not_end_with_the_death_that_replaces_a_sample(make_rig):
    """The dead worker has its last claim; it is computed again, as later deaths would have it."""
    rig = make_rig(workers=2, outstanding=2, crash_policy="replace")
    rig.up(1, 2)
    failing, dying = (rig.open(rank=rank, world_size=2, batch_size=4) for rank in (0, 1))
    rig.run(dying, granted=1)
    rig.run(failing, granted=1)
    rig.finish(1)
    assert [(w.stream, w.row_lo) for n in (1, 2) for w in rig.claims(n)] == [
        (1, 0), (2, 3), (1, 1),
    ]  # fmt: skip
    rig.fail(1)
    rig.core._groups.by_number[2].stream.accuse((0, 0, 3), True)
    rig.die(2, blame=True, row=3, sample=33)
    assert not rig.errors(failing)
    rig.up(3)
    rig.work((1, 3))
    assert places(rig.ready(failing)) == places(rig.ready(dying)) == [(0, 0, [33])]


class Two:
    """Two workers with a claim of one row each, at steps whose rows show the same sample."""

    def __init__(self, make_rig):
        self.rig = make_rig(workers=2, outstanding=1, crash_policy="replace")
        self.rig.up(1, 2)
        self.up = [1, 2]
        self.token = self.rig.open(batch_size=1)
        self.rig.run(self.token, granted=2)

    def crash(self, step):
        """The worker at a step dies, and another one comes up."""
        worker = next(w for w in self.up if self.rig.claims(w)[0].step == step)
        self.rig.die(worker, blame=True, row=0, sample=33)
        self.rig.tick(40)
        self.up.remove(worker)
        self.up.append(max(*self.up, worker) + 1)
        self.rig.up(self.up[-1])

    def end(self):
        self.rig.work(tuple(self.up))
        assert not self.rig.errors(self.token)
        assert places(self.rig.ready(self.token)) == [(0, 0, [33]), (0, 1, [33])]
        assert self.rig.counters()["crashed_samples_total"] == 1


def test_a_sample_that_crashes_at_a_later_step_first_is_replaced_from_the_earlier_one_on(make_rig):
    two = Two(make_rig)
    for step in (1, 1, 0, 0):
        two.crash(step)
    two.end()


def test_a_batch_that_was_begun_before_the_sample_was_replaced_stops_nothing(make_rig):
    two = Two(make_rig)
    two.crash(1)
    held = next(w for w in two.up if two.rig.claims(w)[0].step == 1)
    two.crash(0)
    two.rig.die(held, blame=True, row=0, sample=33)
    two.rig.tick(40)
    two.up.remove(held)
    two.up.append(9)
    two.rig.up(9)
    two.end()


def test_more_than_a_few_stop_the_stream(lone):
    token = lone.open(batch_size=16)
    crashes = Crashes(lone)
    lone.run(token, granted=1)
    for sample in range(MAX_CRASHED):
        crashes.crash(row=sample, sample=sample)
    assert not lone.errors(token)
    crashes.crash(row=9, sample=40)
    (error,) = lone.errors(token)
    assert "8 others are already replaced; leave all of them out with exclude=" in error.message


def test_a_cursor_says_what_is_replaced(make_rig):
    """Whatever the policy is now; and only for the client that says so."""
    rig = make_rig(workers=1)
    rig.up(1)
    token, other = rig.open(), rig.open()
    rig.send(token, Seek(1, 2, 1, [30, 4]), Credit(1, 1))
    rig.run(other, granted=1)
    rig.work((1,))
    assert places(rig.ready(token)) == [(2, 1, [4, 30])]
    assert places(rig.ready(other)) == [(0, 0, [])]


def test_what_a_client_may_not_say(lone):
    token = lone.open()
    lone.send(token, Seek(1, 0, 0, [50]))
    assert "SEEK: crashed: expected ids from 0 to 49, got [50]" in lone.errors(token)[-1].message
    lone.run(token, granted=1)
    Crashes(lone).crash(row=0, sample=49)
    lone.send(token, Seek(2, 0, 0, list(range(8))))
    assert "at most 8 samples of a stream can be replaced, this would be 9" in (
        lone.errors(token)[-1].message
    )


def test_a_sample_of_a_mixture_is_named_by_its_dataset(make_rig):
    """An exclude list has its number there, not that of the mixture."""
    datasets = {"photos": "/data/photos", "drawings": "/data/drawings"}
    rig = make_rig(workers=1, outstanding=1, datasets=datasets)
    rig.up(1)
    parts = (
        BuiltSource("/data/photos", "content:" + "1" * 32, 30, "2" * 32, b"g", name="photos"),
        BuiltSource("/data/drawings", "content:" + "3" * 32, 20, "4" * 32, b"h", name="drawings"),
    )
    wanted = [("photos", 1.0, "train"), ("drawings", 1.0, "train")]
    token = rig.open(mix=wanted, built={"mix": "5" * 32, "sources": parts})
    rig.run(token, granted=1)
    Crashes(rig).crash(row=0, sample=33)
    (error,) = rig.errors(token)
    assert error.message.endswith(
        "repair sample 3 of 'drawings', or leave it out: Loader(exclude={'drawings': [3]})"
    )
