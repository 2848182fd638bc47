"""Samples that are replaced since they crashed workers: cursors name them, SEEK says them."""

import contextlib
import time

import msgspec
import pytest
from fake_daemons import FakeDaemon

from stoker.client import Connection, Loader
from stoker.protocol.errors import SampleError
from stoker.protocol.messages import Error, Seek

SINCE = {7: (0, 2), 3: (1, 1)}


@pytest.fixture
def crashing(daemon):
    """A daemon that replaces two samples from some places on."""
    daemon.alter_ready = lambda ready: [
        msgspec.structs.replace(
            ready,
            crashed=sorted(n for n, since in SINCE.items() if since <= (ready.epoch, ready.step)),
        )
    ]
    return daemon


@pytest.fixture
def loader(crashing):
    with Loader(crashing.address, pipeline="train", batch_size=16, device="numpy") as made:
        yield made


def after(loader, step):
    """The cursor after a step of the next epoch."""
    for batch in loader:
        if batch.step == step:
            break
    return loader.state_dict()


def test_cursors_name_what_is_replaced_by_their_place(loader):
    """Not what lies ahead, though it was prefetched."""
    found = {}
    for _ in range(2):
        for batch in loader:
            found[batch.epoch, batch.step] = loader.state_dict().get("crashed")
    assert found == {
        place: sorted(n for n, since in SINCE.items() if since <= place) or None for place in found
    }
    loader.close()
    assert loader.state_dict()["crashed"] == [3, 7]


def test_a_resume_says_what_the_cursor_names(crashing, loader):
    state = after(loader, 3)
    assert state["crashed"] == [7]
    loader.load_state_dict({**state, "crashed": [5, 7]})
    assert loader.state_dict()["crashed"] == [5, 7]
    loader.set_epoch(0)  # goes on at the cursor
    next(iter(loader))
    loader.load_state_dict({**state, "crashed": [9], "step": 1})
    next(iter(loader))
    assert crashing.of(Seek)[-1] == Seek(2, 0, 1, [9])


def test_an_earlier_place_does_not_know_of_it(crashing):
    """With so few batches ahead that none of them names the sample of the next epoch."""
    given = {"pipeline": "train", "batch_size": 16, "device": "numpy", "prefetch": 2}
    with Loader(crashing.address, **given) as loader:
        after(loader, 3)
        loader.set_epoch(0)
        assert "crashed" not in loader.state_dict()
        next(iter(loader))
        assert crashing.of(Seek)[-1] == Seek(2, 0, 0, [])
        loader.set_epoch(5)
        next(iter(loader))
        assert crashing.of(Seek)[-1] == Seek(3, 5, 0, [7])


@pytest.mark.parametrize(("step", "named"), [(2, []), (3, [7])])
def test_the_step_of_the_first_replacement_does_not_know_of_it(crashing, loader, step, named):
    """The next step is that step: no batch before it had the sample replaced."""
    after(loader, 3)
    loader.set_epoch(0)
    loader.skip(step)
    assert loader.state_dict().get("crashed", []) == named
    next(iter(loader))
    assert crashing.of(Seek)[-1] == Seek(2, 0, step, named)


def test_what_only_a_lost_daemon_announced_is_forgotten(crashing, folder):
    """The cursor names samples that are replaced in delivered batches, not in announced ones."""
    with Loader(
        crashing.address,
        pipeline="train",
        batch_size=16,
        connection=Connection(reconnect_s=20),
        device="numpy",
    ) as loader:
        batches = iter(loader)
        next(batches)
        session = loader._connection.daemon_stream.session
        while 7 not in loader._connection.crashed:
            session.receive(time.monotonic() + 10)
            loader._connection.delivery._read_inbox()
        crashing.close()
        with contextlib.closing(FakeDaemon(folder)) as other:
            failed = SampleError("as good as an answer").to_record()
            other.answer_replay = lambda record: (Error(record.request, *failed), None)
            with pytest.raises(SampleError, match="as good as an answer"):
                loader.replay(0, 0)
            assert [batch.step for batch in batches] == [1, 2, 3, 4]
            assert other.of(Seek)[0] == Seek(1, 0, 1, [])
            assert "crashed" not in loader.state_dict()


def test_a_loss_before_the_first_batch_keeps_what_the_cursor_names(crashing, folder):
    """The place of the cursor counts, not that of the link that was lost."""
    with Loader(
        crashing.address,
        pipeline="train",
        batch_size=16,
        connection=Connection(reconnect_s=20),
        device="numpy",
    ) as loader:
        loader.load_state_dict({**after(loader, 3), "epoch": 1})
        crashing.close()
        with contextlib.closing(FakeDaemon(folder)) as other:
            failed = SampleError("as good as an answer").to_record()
            other.answer_replay = lambda record: (Error(record.request, *failed), None)
            with pytest.raises(SampleError, match="as good as an answer"):
                loader.replay(0, 0)
            next(iter(loader))
            assert other.of(Seek)[0] == Seek(1, 1, 4, [7])
