"""Loops, epochs and the place in the stream, against a daemon whose bytes are known."""

import copy
import gc
import json
import pickle
import re
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from asking import opening
from loading import places

from stoker.client import Batch, Connection, Loader, batch_delivery
from stoker.protocol.errors import (
    ClosedError,
    PeerError,
    ResumeError,
    UsageError,
)
from stoker.protocol.messages import AskStatus, Close, Credit, Open, Release, Seek


@pytest.fixture
def loader(daemon):
    with Loader(daemon.address, pipeline="train", batch_size=16, device="numpy") as made:
        yield made


@pytest.fixture
def few(daemon):
    """One with so few batches ahead that an epoch has to ask for more."""
    with Loader(
        daemon.address, pipeline="train", batch_size=16, device="numpy", prefetch=4
    ) as made:
        yield made


def test_every_byte_over_epochs(daemon, loader, same) -> None:
    assert len(loader) == 5
    for epoch in range(3):
        seen = 0
        for step, batch in enumerate(loader):
            same(daemon, batch, epoch, step)
            seen += 1
        assert seen == 5
    assert daemon.of(Seek) == [Seek(1, 0, 0)], "epochs follow without a new run"
    statistics = loader.statistics()
    assert (statistics.delivered, statistics.copied, statistics.slots) == (15, 0, 19)
    assert statistics.waits <= 15
    assert (statistics.wait_s > 0) == (statistics.waits > 0), "a quick daemon may be first"


def test_open_record(daemon) -> None:
    with Loader(
        daemon.address,
        dataset="photos",
        pipeline="train",
        batch_size=4,
        rank=1,
        world_size=3,
        seed=2**64 - 1,
        shuffle=False,
        drop_last=False,
        prefetch=7,
        group="g",
        on_error="mask",
        views=2,
        freeze={"color_jitter": 7, "crop": "epoch"},
        total_epochs=90,
        device="numpy",
    ):
        assert daemon.of(Open) == [
            opening(
                request=1,
                dataset="photos",
                pipeline="train",
                batch_size=12,
                rank=1,
                world_size=3,
                shuffle=False,
                tail="pad",
                seed=2**64 - 1,
                freeze={"color_jitter": 7, "crop": "epoch"},
                views=2,
                total_epochs=90,
                on_error="mask",
                prefetch=7,
                leases=2,
                group="g",
            )
        ]


def test_pipeline_object_travels_as_canonical_bytes(daemon) -> None:
    class Graph:
        def to_data(self):
            return {"b": [1, 0.5], "a": None}

    class Pipeline:
        def graph(self):
            return Graph()

    with Loader(daemon.address, pipeline=Pipeline(), global_batch_size=16):
        opened = daemon.of(Open)[0]
    (source,) = opened.stream.sources
    assert source.pipeline == ""
    assert source.graph == b'{"a":null,"b":[1,{"$f64":"3fe0000000000000"}]}'


def test_leaving_early_begins_the_next_epoch(daemon, loader, same) -> None:
    for batch in loader:
        if batch.step == 1:
            break
    assert places(loader) == [(1, step) for step in range(5)]
    assert daemon.of(Seek) == [Seek(1, 0, 0), Seek(2, 1, 0)]


def test_set_epoch(loader) -> None:
    loader.set_epoch(7)
    assert loader.state_dict()["epoch"] == 7
    assert places(loader) == [(7, step) for step in range(5)]
    assert next(iter(loader)).epoch == 8
    loader.set_epoch(0)
    assert next(iter(loader)).epoch == 0
    for wrong in (-1, 1.5, True, "3"):
        with pytest.raises(UsageError, match=r"set_epoch\(.*expected an integer from 0"):
            loader.set_epoch(wrong)


def test_state_names_the_step_after_the_last_batch_handed_out(daemon, loader) -> None:
    assert (loader.state_dict()["epoch"], loader.state_dict()["step"]) == (0, 0)
    for batch in loader:
        state = loader.state_dict()
        assert (state["epoch"], state["step"], state["skipped"]) == (0, batch.step + 1, 0)
        assert len(json.dumps(state)) <= 1024
    assert (loader.state_dict()["epoch"], loader.state_dict()["step"]) == (0, 5)
    iterator = iter(loader)  # the epoch begins with its first batch
    assert (loader.state_dict()["epoch"], loader.state_dict()["step"]) == (0, 5)
    next(iterator)
    assert (loader.state_dict()["epoch"], loader.state_dict()["step"]) == (1, 1)


@pytest.mark.parametrize("stop", range(6))
def test_resume_gives_the_tail(make_daemon, same, stop: int) -> None:
    first, second = make_daemon(), make_daemon()
    with Loader(first.address, pipeline="train", batch_size=16, device="numpy") as before:
        batches = iter(before)
        for _ in range(stop):
            next(batches)
        state = json.loads(json.dumps(before.state_dict()))
    with Loader(second.address, pipeline="train", batch_size=16, device="numpy") as after:
        after.load_state_dict(state)
        assert after.state_dict() == state
        expected = [(0, step) for step in range(stop, 5)] or [(1, step) for step in range(5)]
        found = [(batch.epoch, batch.step) for batch in after]
        assert found == expected
        assert next(iter(after)).epoch == expected[-1][0] + 1
    # The daemon was asked for the place itself, not made to count up to it.
    assert second.of(Seek)[0] == Seek(1, *expected[0])


def test_loaded_cursor_and_set_epoch(loader) -> None:
    batches = iter(loader)
    next(batches)
    next(batches)
    state = loader.state_dict()
    loader.load_state_dict(state)
    loader.set_epoch(0)  # the epoch of the cursor: the cursor stays valid
    assert places(loader) == [(0, 2), (0, 3), (0, 4)]
    loader.load_state_dict(state)
    loader.set_epoch(3)  # another epoch: as told
    assert next(iter(loader)).step == 0
    loader.load_state_dict({**state, "step": 5})
    loader.set_epoch(0)  # of epoch 0 nothing is left
    assert places(loader) == []
    assert next(iter(loader)).epoch == 1


def test_cursor_of_another_batch_size(make_daemon, loader) -> None:
    state = loader.state_dict()
    with Loader(
        make_daemon().address, pipeline="train", batch_size=16, rank=0, world_size=3, seed=1
    ) as other:
        with pytest.raises(ResumeError) as caught:
            other.load_state_dict(state)
        message = str(caught.value)
        assert "B = 16" in message
        assert "B = 48 over 3 rank(s)" in message
        assert "pass global_batch_size=16" in message
        assert "also different: seed: was 0, is 1" in message


def test_cursor_of_another_rank_count_with_the_same_batch(make_daemon) -> None:
    first, second = make_daemon(), make_daemon()
    with Loader(first.address, pipeline="train", batch_size=8, rank=1, world_size=2) as one:
        next(iter(one))
        state = one.state_dict()
    with Loader(
        second.address, pipeline="train", global_batch_size=16, rank=2, world_size=3
    ) as other:
        other.load_state_dict(state)
        assert next(iter(other)).step == 1


def test_skip_before_and_in_a_loop(daemon, loader, same) -> None:
    loader.skip(1)
    seen = []
    for batch in loader:
        same(daemon, batch, *((0, 4) if seen else (0, 1)))
        seen.append((batch.epoch, batch.step))
        if batch.step == 1:
            loader.skip(2)
            state = loader.state_dict()
            assert (state["step"], state["skipped"]) == (4, 3)
    assert seen == [(0, 1), (0, 4)]
    with pytest.raises(UsageError, match=r"skip\(1\): expected an integer from 0 to 0"):
        loader.skip(1)
    assert places(loader) == [(1, step) for step in range(5)]
    assert loader.state_dict()["skipped"] == 0


def test_skipping_the_rest_ends_the_epoch(loader) -> None:
    for batch in loader:
        assert batch.step == 0
        loader.skip(4)
    assert next(iter(loader)).epoch == 1


def test_the_newer_iterator_wins(loader) -> None:
    old = iter(loader)
    next(old)
    new = iter(loader)
    assert next(new).epoch == 1
    with pytest.raises(ClosedError, match="one iterator at a time"):
        next(old)
    assert next(new).step == 1
    assert iter(new) is new


def test_an_ended_iterator_stays_ended(loader) -> None:
    batches = iter(loader)
    assert len(list(batches)) == 5
    assert list(batches) == []


def test_close(daemon) -> None:
    loader = Loader(daemon.address, pipeline="train", batch_size=16)
    batches = iter(loader)
    batch = next(batches)
    loader.close()
    loader.close()
    daemon.wait_for(lambda: daemon.ended == 1)
    for use in (lambda: next(batches), lambda: iter(loader)):
        with pytest.raises(ClosedError, match="this loader was closed; make a new one"):
            use()
    assert loader.state_dict()["step"] == 1
    expected = torch.from_numpy(daemon.batch(0, 0)["image"])
    assert torch.equal(batch.image, expected), "tensors outlive the loader"
    daemon.wait_for(lambda: daemon.of(Close) != [])


def test_a_forgotten_loader_closes_itself_in_silence(daemon) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = Loader(daemon.address, pipeline="train", batch_size=16)
        next(iter(loader))
        del loader
        gc.collect()
    daemon.wait_for(lambda: daemon.ended == 1)
    assert [str(warning.message) for warning in caught] == []


def test_an_empty_epoch(make_daemon) -> None:
    with Loader(make_daemon(steps=0).address, pipeline="train", batch_size=16) as loader:
        assert len(loader) == 0
        assert list(loader) == []


def test_credits_follow_the_batches_taken(daemon, monkeypatch) -> None:
    monkeypatch.setattr(batch_delivery, "QUICK_S", 0.0)
    with Loader(daemon.address, pipeline="train", batch_size=16, prefetch=3) as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        daemon.wait_for(lambda: len(daemon.of(Credit)) == 5)
    assert daemon.of(Credit) == [Credit(1, 3), *[Credit(1, 1)] * 4]


def test_prefetch_is_left_to_the_daemon(daemon) -> None:
    """An older daemon takes the most that a newer one would choose."""
    daemon.chosen = 2
    with Loader(daemon.address, pipeline="train", batch_size=16) as loader:
        next(iter(loader))
        assert loader.prefetch == 2
        assert re.search(r", prefetch=2, memory 0\.\d MiB\)$", repr(loader))
    (opened,) = daemon.of(Open)
    assert (opened.delivery.prefetch, opened.delivery.prefetch_bytes) == (16, 2**29)
    assert daemon.of(Credit)[0] == Credit(1, 2)


def test_prefetch_as_given(daemon) -> None:
    with Loader(daemon.address, pipeline="train", batch_size=16, prefetch=7) as loader:
        next(iter(loader))
        assert loader.prefetch == 7
    (opened,) = daemon.of(Open)
    assert (opened.delivery.prefetch, opened.delivery.prefetch_bytes) == (7, 0)
    assert daemon.of(Credit)[0] == Credit(1, 7)


def test_credits_of_quick_batches_go_together(daemon, monkeypatch) -> None:
    """As long as the next batch is there already."""
    monkeypatch.setattr(batch_delivery, "QUICK_S", 1e9)
    with Loader(daemon.address, pipeline="train", batch_size=16, prefetch=4) as loader:
        batches, taken = iter(loader), loader._connection.delivery
        next(batches)  # waited for
        daemon.wait_for(lambda: len(daemon.of(Credit)) == 2)
        while len(taken._queue) < 4:
            taken._session.receive(time.monotonic() + 10)
            taken._read_inbox()
        for _ in range(4):
            next(batches)
        daemon.wait_for(lambda: len(daemon.of(Credit)) == 4)
        assert taken._kept == 0
    assert daemon.of(Credit) == [Credit(1, 4), Credit(1, 1), Credit(1, 2), Credit(1, 2)]


def test_a_batch_is_one_message(daemon) -> None:
    """Slots whose arrays died wait for the next credit, also where the batch is waited for."""
    loader = Loader(
        daemon.address,
        pipeline="train",
        batch_size=16,
        prefetch=1,
        connection=Connection(timeout_s=3.0),
    )
    with loader:
        batches = iter(loader)
        next(batches)
        daemon.wait_for(lambda: len(daemon.of(Credit)) == 2)
        daemon.do(lambda: daemon.mute.add(Credit))
        next(batches)
        daemon.wait_for(lambda: len(daemon.of(Credit)) == 3)
        sent = daemon.messages
        with pytest.raises(PeerError, match="did not answer in time"):
            next(batches)
        statistics = loader.statistics()
        assert statistics.leased == 0
        assert statistics.waits >= 1
        assert statistics.wait_s >= 3.0
        assert daemon.messages == sent
        assert daemon.of(Release) == [Release([(0, 1)])]


def test_batch_by_name_and_attribute(daemon, loader) -> None:
    batch = next(iter(loader))
    assert isinstance(batch, Batch)
    assert list(batch) == ["image", "label", "index", "requested", "valid"]
    assert len(batch) == 5
    assert batch.image is batch["image"]
    assert batch.index is batch["index"]
    assert batch.requested is batch["requested"]
    assert batch.valid is batch["valid"]
    assert batch.valid.dtype == np.bool_
    assert "image: (16, 32, 48, 3) uint8" in repr(batch)
    with pytest.raises(AttributeError, match="no output 'mask'; it has image, label, index"):
        _ = batch.mask
    with pytest.raises(KeyError):
        batch["mask"]


def test_torch_tensors_by_default(daemon) -> None:
    with Loader(daemon.address, pipeline="train", batch_size=16) as loader:
        batch = next(iter(loader))
        assert all(isinstance(tensor, torch.Tensor) for tensor in batch.values())
        assert batch.image.dtype == torch.uint8
        assert batch.index.dtype == torch.int64
        assert batch.valid.dtype == torch.bool
        moved = batch.to("cpu")
        assert (moved.epoch, moved.step) == (0, 0)
        assert moved.pipeline_id == batch.pipeline_id == daemon.spec.pipeline
        assert moved.image.data_ptr() == batch.image.data_ptr()
        assert repr(batch).startswith("Batch(epoch 0, step 0; image: (16, 32, 48, 3) uint8")


def test_batches_are_copied_and_pickled(daemon, loader, same) -> None:
    batch = next(iter(loader))
    for twin in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        same(daemon, twin, 0, 0)
        assert not np.shares_memory(twin.image, batch.image)


def test_spec_is_the_daemons(daemon, loader) -> None:
    assert loader.spec == daemon.spec


def test_a_batch_says_where_it_is_from(daemon, loader) -> None:
    """Also one that is kept after its loader, copied or pickled; no array is made for it."""
    batch = next(iter(loader))
    names = list(batch)
    loader.close()
    for one in (batch, copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert one.pipeline_id == daemon.spec.pipeline
        assert one.stream_id == daemon.spec.stream_id
        assert (one.epoch, one.step) == (0, 0)
        assert list(one) == names


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "where", ["session.poll", "session.send", "delivery._announce", "delivery._seek", "book.take"]
)
def test_an_interrupt_loses_neither_batch_nor_slot(
    daemon, few, same, monkeypatch: pytest.MonkeyPatch, where: str, late: bool
) -> None:
    """Ctrl-C anywhere while a batch is fetched: the loop goes on with that very batch."""
    loader, delivery = few, few._connection.delivery
    owners = {"session": delivery._session, "delivery": delivery, "book": few._connection.book}
    part, name = where.split(".")
    owner = owners[part]
    interruptions = 0
    for epoch in range(6):
        batches = iter(loader)
        for step in range(5):
            with monkeypatch.context() as patch:
                original: Callable[..., object] = getattr(owner, name)

                def interrupt(*args, original=original):
                    if late:
                        original(*args)
                    raise KeyboardInterrupt

                patch.setattr(owner, name, interrupt)
                try:
                    batch = next(batches)
                except KeyboardInterrupt:
                    interruptions += 1
                    batch = None
            if batch is None:
                batch = next(batches)
            same(daemon, batch, epoch, step)
            del batch
    assert interruptions >= (1 if name == "_seek" else 6)
    assert loader.statistics().leased == 0
    delivery.release()
    daemon.mute.add(AskStatus)
    delivery._session.send(AskStatus())
    daemon.wait_for(lambda: daemon.of(AskStatus))  # it has dealt with all before
    announced = 4 - delivery._kept  # a credit may wait for the next batch's
    assert len(daemon.free) == 6 - announced
