"""Steps that are left out after a loss spike: in the loop, in the cursor, on every rank."""

import json
import subprocess

import pytest
from warm import Script

from stoker.client import Loader
from stoker.client.position import Position
from stoker.protocol.cursor import Cursor
from stoker.protocol.errors import UsageError

pytestmark = pytest.mark.as_a_user


@pytest.fixture
def loader(daemon):
    """5 steps an epoch."""
    with Loader(daemon.address, pipeline="train", batch_size=16, device="numpy") as made:
        yield made


def steps(loader, epochs: int = 1) -> list[tuple[int, int]]:
    return [(batch.epoch, batch.step) for _ in range(epochs) for batch in loader]


def test_other_steps_keep_their_numbers_and_bytes(daemon, loader, same) -> None:
    loader.skip_steps(0, [1, 2])
    loader.skip_steps(2, [range(3, 5)])
    assert len(loader) == 3
    found = []
    for epoch in range(4):
        for batch in loader:
            assert len(loader) == (3, 5, 3, 5)[epoch]
            same(daemon, batch, batch.epoch, batch.step)
            found.append((batch.epoch, batch.step))
    assert found == [
        (0, 0), (0, 3), (0, 4), *[(1, step) for step in range(5)], (2, 0), (2, 1), (2, 2),
        *[(3, step) for step in range(5)],
    ]  # fmt: skip


def test_the_cursor_records_them(daemon, loader) -> None:
    """Saved anywhere, also before or between them, and as JSON."""
    loader.skip_steps(0, [1, 3])
    loader.skip_steps(1, [0, 4])
    expected = [(0, 0), (0, 2), (0, 4), (1, 1), (1, 2), (1, 3), (2, 0)]
    states = [loader.state_dict()]
    for batch in loader:
        states.append(loader.state_dict())
        assert states[-1]["skips"] == {"0": [1, 1, 3, 3], "1": [0, 0, 4, 4]}
        assert states[-1]["skipped"] == batch.step // 2
    for taken, state in enumerate(states):
        loader.load_state_dict(json.loads(json.dumps(state)))
        assert loader.state_dict() == state
        assert steps(loader, 1 + (taken < 3))[: 6 - taken] == expected[taken:6]


def test_nothing_is_left_of_an_epoch(loader) -> None:
    loader.skip_steps(0, [1, 2, 3, 4])
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    assert list(batches) == []
    position = Position(lambda epoch: 5)
    position.load(Cursor.from_data(state), loader.spec, 1)
    assert position.next_place().epoch == 1, "nothing is left of epoch 0, so its loop is over"


def test_during_a_loop_and_together_with_skip(daemon, loader) -> None:
    found = []
    for batch in loader:
        found.append(batch.step)
        if batch.step == 0:
            loader.skip_steps(0, [1, 3])
    assert found == [0, 2, 4]
    loader.skip_steps(1, [1, 2])
    loader.set_epoch(1)
    loader.skip(2)  # the batches of steps 0 and 3
    assert steps(loader) == [(1, 4)]
    loader.skip_steps(2, [0])
    loader.set_epoch(2)
    with pytest.raises(
        UsageError, match=r"skip\(5\): expected an integer from 0 to 4, the batches"
    ):
        loader.skip(5)


def test_a_whole_epoch(loader) -> None:
    """Its loop delivers nothing."""
    loader.skip_steps(1, range(5))
    assert steps(loader, 3) == [(0, step) for step in range(5)] + [(2, step) for step in range(5)]


def test_rolling_back_keeps_what_was_skipped_before(loader) -> None:
    """A state from before the first spike does not list what was skipped after it was saved."""
    state = loader.state_dict()
    loader.skip_steps(0, [3])
    loader.load_state_dict(state)
    loader.skip_steps(0, [1])
    assert steps(loader) == [(0, 0), (0, 2), (0, 4)]


@pytest.mark.parametrize(
    ("epoch", "which", "says"),
    [
        (0, 3, r"steps=3: expected a list of steps or ranges, for example \[1020, range"),
        (0, "12", "steps='12': expected a list of steps"),
        (0, [5], "step 5 of epoch 0: expected steps from 0 to 4, the last one of that epoch"),
        (0, range(3, 9), "step 8 of epoch 0: expected steps from 0 to 4"),
        (0, [-1], "step=-1: expected an integer from 0"),
        (0, [1.0], "step=1.0: expected an integer from 0 .*, got float"),
        (0, [True], "step=True: expected an integer"),
        (-1, [1], "epoch=-1: expected an integer from 0"),
        ("0", [1], "epoch='0': expected an integer from 0"),
    ],
)
def test_wrong_steps(loader, epoch, which, says: str) -> None:
    with pytest.raises(UsageError, match=f"^skip_steps: {says}"):
        loader.skip_steps(epoch, which)
    assert "skips" not in loader.state_dict()


def test_steps_that_are_over(loader) -> None:
    """Nobody is left in the belief that a batch was not seen that was."""
    batches = iter(loader)
    next(batches), next(batches)
    with pytest.raises(
        UsageError,
        match="step 1 of epoch 0 is over: the loader is at step 2 of epoch 0; load a state from be",
    ):
        loader.skip_steps(0, [1, 3])
    assert [batch.step for batch in batches] == [2, 3, 4]


def test_too_many_ranges_for_a_cursor(daemon, loader) -> None:
    def skip_all() -> None:
        for epoch in range(90):
            loader.skip_steps(epoch, [0, 2, 4])

    with pytest.raises(UsageError, match=r"a cursor has at most 1024 bytes, and with \d+ ranges"):
        skip_all()
    state = loader.state_dict()
    assert len(state["skips"]) > 5
    loader.load_state_dict(json.loads(json.dumps(state)))


RANK = """
import json, sys
import torch.distributed as dist
from stoker.client.ranks import rank_calls
from stoker.protocol.errors import UsageError
rank, said = int(sys.argv[2]), sys.argv[3:]
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
rank_calls.AGREE_S = 20.0 if len(said) == 2 else 1.0
try:
    for words in said[:1] * (said[0] != "forgets"):
        rank_calls.check_agreed("skip_steps/stream", words, rank, 2)
        rank_calls.check_agreed("skip_steps/stream", words + " again", rank, 2)
    print("agreed")
except UsageError as error:
    print(error.message)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("epoch 0: step 1", "epoch 0: step 1", ["agreed", "agreed"]),
        (
            "epoch 0: step 1",
            "epoch 0: step 2",
            [
                "skip_steps: rank 0 says epoch 0: step 1, but rank 1 says epoch 0: step 2; call it "
                "on every rank with the same arguments",
                "skip_steps: rank 1 says epoch 0: step 2, but rank 0 says epoch 0: step 1; call it "
                "on every rank with the same arguments",
            ],
        ),
        (
            "epoch 0: step 1",
            "forgets",
            [
                "skip_steps: ranks [1] of 2 did not call it within 1 s, but rank 0 did (epoch 0: "
                "step 1); call it on every rank with the same arguments",
                "agreed",
            ],
        ),
    ],
    ids=["agree", "differ", "one forgets"],
)
def test_ranks_agree_or_get_an_error(tmp_path, first: str, second: str, expected) -> None:
    patient = [] if second == "forgets" else ["patient"]
    both = [
        Script(
            *("-c", RANK, tmp_path / "rendezvous", rank, said, *patient),
            stdout=subprocess.PIPE,
            imports=["torch.distributed"],
        )
        for rank, said in enumerate((first, second))
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in both] == expected
