"""Copies ahead of use: order, release by event, errors in their turn; with a fake accelerator.

The accelerator copies on the processor and lets its events pass when the test says so. Page-locking
and streams need a real CUDA device and are not tested here.
"""

import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from loading import load

from stoker.client import Loader, batch_delivery
from stoker.client.device import AHEAD, AheadSource, CudaAccelerator, Target
from stoker.protocol.errors import DaemonLostError, SampleError
from stoker.protocol.messages import Error, Open, Release


class Event:
    passed = False


class Accelerator:
    """Copies at once; an event passes when told, or at once if `quick`."""

    def __init__(self) -> None:
        self.quick = False
        self.events: list[Event] = []
        self.handed: list[Event] = []
        self.closed = False

    def copy(self, arrays):
        self.events.append(Event())
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return tensors, self.events[-1]

    def hand_over(self, tensors, event) -> None:
        self.handed.append(event)

    def passed(self, event: Event) -> bool:
        return event.passed or self.quick

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """Make every loader use the accelerator."""
    made = Accelerator()

    def source(self, delivery, slab):
        return AheadSource(delivery, made)

    monkeypatch.setattr(Target, "source", source)
    return made


def announced(loader: Loader, count: int) -> None:
    """Wait until the daemon has announced that many batches that were not taken."""
    delivery = loader._connection.delivery
    while len(delivery._queue) < count:
        delivery._session.receive(time.monotonic() + 10)
        delivery._read_inbox()


def test_batches_are_copied_before_they_are_asked_for(daemon, accelerator, same) -> None:
    accelerator.quick = True
    with load(daemon, prefetch=4) as loader:
        batches = iter(loader)
        same(daemon, next(batches), 0, 0)
        for step in range(1, 5):
            announced(loader, AHEAD)
            same(daemon, next(batches), 0, step)
            assert len(accelerator.events) >= step + 2
            assert loader.state_dict()["step"] == step + 1, "copied ahead does not count"
        assert accelerator.handed == accelerator.events[:5], "each waits for its own copy"
    assert accelerator.closed


def test_a_slot_goes_back_only_when_its_copy_is_done(make_daemon, accelerator, monkeypatch) -> None:
    monkeypatch.setattr(batch_delivery, "QUICK_S", 0.0)  # each credit is sent, and slots with it
    daemon = make_daemon(steps=50)
    with load(daemon, prefetch=8) as loader:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        taken = len(accelerator.events)
        assert taken >= 3
        assert loader.statistics().leased == taken, "no copy is done, no slot is free"
        assert daemon.of(Release) == []
        accelerator.events[1].passed = True
        next(batches)
        assert loader.statistics().leased >= taken, "slots go back in order"
        accelerator.events[0].passed = True
        before = len(accelerator.events)
        next(batches)
        assert loader.statistics().leased <= len(accelerator.events) - 2
        assert len(accelerator.events) >= before
        for event in accelerator.events:
            event.passed = True
        for _ in range(3):  # a copy is looked at when the next one begins
            next(batches)
        daemon.wait_for(lambda: sum(len(r.slots) for r in daemon.of(Release)) >= 3)


def test_slow_copies_never_hang(make_daemon, accelerator, same) -> None:
    """No event ever passes: beyond the limit batches are copied out."""
    daemon = make_daemon(steps=30)
    with load(daemon) as loader:
        for step, batch in enumerate(loader):
            same(daemon, batch, 0, step)
        assert loader.statistics().copied > 0


def test_leaving_early_drops_what_was_copied_ahead(make_daemon, accelerator, same) -> None:
    daemon = make_daemon(steps=20)
    with load(daemon) as loader:
        for epoch in range(3):
            for step, batch in enumerate(loader):
                same(daemon, batch, epoch, step)
                for event in accelerator.events:
                    event.passed = True
                if step == 6:
                    break
        loader.skip(3)
        same(daemon, next(iter(loader)), 3, 0)


def test_skip_passes_over_copies(make_daemon, accelerator, same) -> None:
    daemon = make_daemon(steps=20)
    accelerator.quick = True
    with load(daemon) as loader:
        batches = iter(loader)
        next(batches)
        announced(loader, 3)
        next(batches)
        loader.skip(3)
        same(daemon, next(batches), 0, 5)


def test_an_error_of_a_later_batch_comes_in_its_turn(daemon, accelerator, same) -> None:
    error = SampleError("sample 17", id=17)

    def alter(ready):
        if ready.step < 2:
            return [ready]
        daemon._credits = 0
        return [Error(0, *error.to_record(), ready.run)]

    daemon.alter_ready = alter
    with load(daemon) as loader:
        batches = iter(loader)
        next(batches)
        announced(loader, 1)
        same(daemon, next(batches), 0, 1)
        with pytest.raises(SampleError, match="sample 17"):
            next(batches)
        daemon.alter_ready = lambda ready: [ready]
        same(daemon, next(batches), 0, 2)


def test_a_lost_daemon_is_noticed_after_the_copies(make_daemon, accelerator) -> None:
    daemon = make_daemon(steps=50)
    with load(daemon) as loader:
        batches = iter(loader)
        next(batches)
        daemon.die()
        seen = []
        with pytest.raises(DaemonLostError):
            seen.extend(batches)
        assert loader.state_dict()["step"] == 1 + len(seen)


def test_leases_are_asked_for_copies_in_flight(daemon) -> None:
    with load(daemon):
        assert daemon.of(Open)[0].delivery.leases == 2
    target = Target("numpy")
    assert target.leases == 2


def fake_torch(*, refuse: bool = False) -> SimpleNamespace:
    """As much of torch.cuda as the accelerator uses, recording calls."""
    calls: list[tuple] = []

    class Null:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    class Stream(Null):
        def wait_event(self, event):
            calls.append(("wait_event", event))

        def synchronize(self):
            calls.append(("synchronize",))

    class CudaEvent:
        def record(self, stream):
            calls.append(("record", self))

        def query(self):
            return True

    class Tensor:
        def to(self, device, non_blocking):
            calls.append(("to", device, non_blocking))
            return self

        def record_stream(self, stream):
            calls.append(("record_stream", self))

    runtime = SimpleNamespace(
        cudaHostRegister=lambda *a: calls.append(("register", *a)) or (1 if refuse else 0),
        cudaHostUnregister=lambda *a: calls.append(("unregister", *a)) or 0,
    )
    cuda = SimpleNamespace(
        Stream=lambda device: Stream(),
        Event=CudaEvent,
        device=lambda device: Null(),
        stream=lambda stream: Null(),
        current_stream=lambda device: Stream(),
        cudart=lambda: runtime,
    )
    return SimpleNamespace(cuda=cuda, calls=calls, from_numpy=lambda array: Tensor())


class Memory:
    """Three slots of a client's slab, of which only those that are asked for may be touched."""

    slots, slot_bytes, size_bytes = 3, 4096, 3 * 4096

    def __init__(self, *, writable: bool) -> None:
        self.writable = writable
        self._bytes = np.zeros(self.size_bytes, np.uint8)
        self.address = self._bytes.ctypes.data

    def arrays(self, slot: int) -> dict[str, np.ndarray]:
        """The outputs of a batch: a small one that was copied, and two in the slot."""
        begin = slot * self.slot_bytes
        image, mask = self._bytes[begin : begin + 3000], self._bytes[begin + 3008 : begin + 4000]
        return {"label": np.zeros(3), "image": image, "mask": mask}


def test_the_calls_to_cuda() -> None:
    slab = Memory(writable=True)
    torch_ = fake_torch()
    accelerator = CudaAccelerator(torch_, "cuda:0", slab)
    assert not torch_.calls, "no slot has a batch, so none may be touched"
    tensors, event = accelerator.copy(slab.arrays(1))
    accelerator.hand_over(tensors, event)
    assert accelerator.passed(event)
    accelerator.close()
    accelerator.close()
    names = [call[0] for call in torch_.calls]
    assert names == [
        "register", "to", "to", "to", "record", "wait_event", *["record_stream"] * 3,
        "synchronize", "unregister", "synchronize",
    ]  # fmt: skip
    assert torch_.calls[0] == ("register", slab.address + 4096, 4096, 0)
    assert torch_.calls[1] == ("to", "cuda:0", True)
    assert ("unregister", slab.address + 4096) in torch_.calls


def test_each_slot_is_page_locked_once() -> None:
    slab, torch_ = Memory(writable=True), fake_torch()
    accelerator = CudaAccelerator(torch_, "cuda:0", slab)
    accelerator.copy({"label": np.zeros(3)})
    assert not accelerator.page_locked, "it is in no slot"
    for slot in (2, 0, 2, 1, 0, 1):
        accelerator.copy(slab.arrays(slot))
    locked = [call[1] for call in torch_.calls if call[0] == "register"]
    assert locked == [slab.address + slot * 4096 for slot in (2, 0, 1)]
    accelerator.close()
    assert sorted(locked) == sorted(call[1] for call in torch_.calls if call[0] == "unregister")


@pytest.mark.parametrize(("writable", "refuse"), [(False, False), (True, True)])
def test_without_page_locking_copies_still_work(writable: bool, refuse: bool) -> None:
    slab = Memory(writable=writable)
    torch_ = fake_torch(refuse=refuse)
    accelerator = CudaAccelerator(torch_, "cuda:0", slab)
    for slot in range(3):
        accelerator.copy(slab.arrays(slot))
    assert not accelerator.page_locked
    accelerator.close()
    names = [call[0] for call in torch_.calls]
    assert "unregister" not in names
    assert names.count("register") == refuse, "it is not tried again"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_real_device(make_daemon, same) -> None:
    daemon = make_daemon(steps=40)
    with load(daemon, device="cuda") as loader:
        for step, batch in enumerate(loader):
            assert batch.image.is_cuda
            same(daemon, batch.to("cpu"), 0, step)
        assert loader.statistics().copied == 0
        assert loader._connection.source._accelerator.page_locked
