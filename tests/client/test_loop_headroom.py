"""`headroom`: what a perfect loader would save, by a clock that tests set."""

import numpy as np
import pytest

from stoker.client import Headroom, Loader, headroom, loop_headroom
from stoker.protocol.errors import UsageError


class Clock:
    """A clock that only the loader and the step move."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def spend(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(loop_headroom, "time", made)
    return made


class Slow:
    """A loader of arrays in one memory that it uses again, as a slot; the first batch starts it."""

    def __init__(self, clock, seconds, batches=20):
        self.clock, self.seconds, self.batches = clock, seconds, batches
        self.memory = np.zeros((4, 3), np.uint8)

    def __iter__(self):
        for number in range(self.batches):
            self.clock.spend(self.seconds if number else 60.0)
            self.memory[:] = number
            yield {"image": self.memory, "names": ["a", "b"]}


def test_a_slow_loader_and_what_each_batch_of_the_second_loop_held(clock):
    seen = []

    def step(batch):
        seen.append(int(batch["image"][0, 0]))
        clock.spend(0.04)

    found = headroom(Slow(clock, 0.06), batches=9, step=step, keep=3)
    assert seen == [0, *range(1, 10), 1, 1, 1, 4, 4, 4, 7, 7, 7]
    assert (found.batches, found.kept, found.has_step) == (9, 3, True)
    assert found.loader_s == pytest.approx(0.9)
    assert found.next_s == pytest.approx(0.54)
    assert found.memory_s == pytest.approx(0.36)
    assert found.saved == pytest.approx(0.6)
    assert str(found) == (
        "a perfect loader would save 60 % of the loop: 100.0 ms a batch, 40.0 ms from memory; 60 %"
        " of the loop is inside of next() (9 batches)"
    )


def test_a_loader_that_takes_cores_from_the_step_costs_more_than_its_wait(clock):
    slow = Slow(clock, 0.0)

    def step(batch):
        clock.spend(0.1 if batch["image"] is slow.memory else 0.08)

    found = headroom(slow, batches=10, step=step)
    assert (found.next_s, found.saved) == (0.0, pytest.approx(0.2))


def test_a_loader_that_is_fast_enough_is_not_worth_an_effort(clock):
    found = headroom(Slow(clock, 0.001), batches=10, step=lambda _: clock.spend(0.099))
    assert str(found) == (
        "a perfect loader would save 1 % of the loop, so a faster one is not worth it: 100.0 ms a"
        " batch, 99.0 ms from memory; 1 % of the loop is inside of next() (10 batches)"
    )


def test_without_a_step_it_is_the_rate_of_the_loader(clock):
    assert str(headroom(Slow(clock, 0.05), batches=10)) == (
        "the loader gives a batch every 50.0 ms (10 batches): a step that takes longer need not"
        " wait; give step= to learn what your loop would save"
    )


def test_no_time_at_all_is_not_a_division_by_zero():
    assert Headroom(3, 3, 0.0, 0.0, 0.0, True).saved == 0
    assert "would save 0 % of the loop, so" in str(Headroom(3, 3, 0.0, 0.0, 0.0, True))


def test_a_list_of_tuples_is_a_loader():
    found = headroom([(np.arange(3), "label")] * 5, batches=4, step=lambda batch: batch[0].sum())
    assert (found.batches, found.kept) == (4, 4)


def test_a_torch_data_loader_and_views_of_a_large_storage():
    torch = pytest.importorskip("torch")
    whole = torch.zeros(100, 1000)
    taken = []

    def step(batch):
        taken.append(batch.untyped_storage().nbytes())

    headroom([whole[row : row + 1] for row in range(4)], batches=3, step=step)
    assert taken == [400_000] * 4 + [4000] * 3  # a copy holds its rows alone
    loader = torch.utils.data.DataLoader(torch.arange(40), batch_size=4)
    assert headroom(loader, batches=9, step=torch.sum).kept == 5


def test_a_loader_of_stoker_continues_where_it_was(daemon):
    steps = []

    def step(batch):
        steps.append((batch.epoch, batch.step, int(batch.image[0, 0, 0, 1])))

    with Loader(daemon.address, pipeline="train", batch_size=16, device="numpy") as loader:
        before = [(b.epoch, b.step, int(b.image[0, 0, 0, 1])) for b in loader]
        saved = loader.state_dict()
        found = headroom(loader, batches=4, step=step, keep=2)
        assert loader.state_dict() == saved
        assert [(b.epoch, b.step) for b in loader] == [(1, number) for number in range(5)]
    assert found.kept == 2
    assert [(epoch, number) for epoch, number, _ in steps[:5]] == [(1, n) for n in range(5)]
    assert steps[5:] == [steps[1], steps[1], steps[3], steps[3]]  # a slot has been used again
    assert len(before) == 5


@pytest.mark.parametrize(
    ("loader", "options", "message"),
    [
        ([], {}, "headroom: the loader delivers no batches"),
        ([1], {"batches": 5},
            "headroom: the loader ended after 1 batches; expected 6, because the first one only"
            " starts it: give a loader with more"),
        ([1] * 50, {},
            "headroom: the loader ended after 50 batches; expected 51, because the first one only"
            " starts it: give batches=49 or fewer, or a loader with more"),
        ((batch for batch in [1, 2, 3]), {"batches": 1},
            "headroom: a generator can be read once, and this would use it up: give the loader"
            " that makes it"),
        (7, {}, "headroom: expected an iterable of batches, got int"),
        ([1] * 9, {"batches": 0}, "headroom: batches=0: expected an integer from 1"),
        ([1] * 9, {"batches": 3, "step": 3},
            "headroom: step=3: expected a function that takes a batch, such as the step of your"
            " training"),
        ([1] * 9, {"batches": 2.5}, "headroom: batches=2.5: expected an integer from 1"),
        ([1] * 9, {"batches": 3, "keep": 0}, "headroom: keep=0: expected an integer from 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured(loader, options, message):
    with pytest.raises(UsageError) as caught:
        headroom(loader, **options)
    assert str(caught.value) == message


def test_a_batch_that_cannot_be_copied_is_named():
    with pytest.raises(UsageError, match="headroom: a generator of a batch cannot be copied: "):
        headroom([{"rows": (row for row in ())}] * 3, batches=1)
