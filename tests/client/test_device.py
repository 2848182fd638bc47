"""Copies ahead of use: order, release by event, errors in their turn; with a fake accelerator.

The accelerator copies on the processor and lets its events pass when the test says so. Its calls to
CUDA are looked at with a fake of `torch.cuda`; tests that need a real device say so and skip.
"""

import logging
import re
import resource
import time

import numpy as np
import pytest
import torch
from fake_cuda import FakeTorch
from loading import load

from stoker.client import Loader, batch_delivery
from stoker.client.cuda_copies import CudaAccelerator
from stoker.client.device import AHEAD, IN_FLIGHT, AheadSource, Target
from stoker.client.device_modules import BatchModules
from stoker.client.torch import Normalize
from stoker.protocol.errors import DaemonLostError, SampleError, UsageError
from stoker.protocol.messages import Error, Open, Release


class Event:
    passed = False


class Accelerator:
    """Copies at once; an event passes when told or waited for, or at once if `quick`."""

    def __init__(self) -> None:
        self.quick = False
        self.events: list[Event] = []
        self.handed: list[Event] = []
        self.marks: list[Event] = []
        self.most = 0
        self.closed = False

    def copy(self, arrays):
        self.events.append(Event())
        self.most = max(self.most, sum(not self.passed(event) for event in self.events))
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return tensors, self.events[-1]

    def run(self, change):
        return change(), Event()

    def hand_over(self, tensors, event) -> None:
        self.handed.append(event)

    def mark(self) -> Event:
        self.marks.append(Event())
        return self.marks[-1]

    def passed(self, event: Event) -> bool:
        return event.passed or self.quick

    def wait(self, event: Event) -> None:
        event.passed = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> Accelerator:
    """Make every loader use the accelerator."""
    made = Accelerator()

    def source(self, delivery, slab, opened, rank):
        modules = None
        if self._chains:
            here = torch.device("cpu")
            modules = BatchModules(torch, self._chains, here, opened.outputs, opened.stream, rank)
        return AheadSource(delivery, made, modules)

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


def test_the_loop_waits_for_slow_copies(make_daemon, accelerator, same) -> None:
    """No event passes by itself: the oldest copy is waited for, and no batch is copied out."""
    daemon = make_daemon(steps=30)
    with load(daemon) as loader:
        for step, batch in enumerate(loader):
            same(daemon, batch, 0, step)
        assert loader.statistics().copied == 0
    assert accelerator.most == IN_FLIGHT


def test_a_loop_that_runs_ahead_of_its_device_waits(make_daemon, accelerator) -> None:
    """Before a batch all work is done that was queued before the one `IN_FLIGHT` earlier."""
    accelerator.quick = True
    with load(make_daemon(steps=12)) as loader:
        for number, _ in enumerate(loader, 1):
            assert len(accelerator.marks) == number
            passed = [mark.passed for mark in accelerator.marks]
            assert passed == [True] * (number - IN_FLIGHT) + [False] * min(number, IN_FLIGHT)


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


class Halves(torch.nn.Module):
    """Fails at one call."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.calls, self.at = 0, at

    def forward(self, images):
        self.calls += 1
        if self.calls == self.at:
            raise FloatingPointError("half of nothing")
        return images / 2


def test_modules_run_ahead_and_their_error_comes_in_its_turn(daemon, accelerator) -> None:
    accelerator.quick = True
    module = Halves(at=3)
    with load(daemon, on_device=[module]) as loader:
        batches = iter(loader)
        next(batches)
        announced(loader, AHEAD)
        for step in (1, 2):
            if step == 2:
                with pytest.raises(FloatingPointError, match="half of nothing"):
                    next(batches)
            batch = next(batches)
            assert module.calls >= 3, "of the batches ahead"
            assert batch.step == step
            assert torch.equal(batch.image, torch.from_numpy(daemon.batch(0, step)["image"]) / 2)
        assert not set(accelerator.handed) & set(accelerator.events), "they wait for the modules"


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


TARGET = "cuda:1"


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
    torch_ = FakeTorch()
    accelerator = CudaAccelerator(torch_, TARGET, slab)
    assert not torch_.calls, "no slot has a batch, so none may be touched"
    tensors, event = accelerator.copy(slab.arrays(1))
    accelerator.hand_over(tensors, event)
    assert accelerator.passed(event)
    accelerator.wait(accelerator.mark())
    assert accelerator.run(lambda: "changed")[0] == "changed"
    accelerator.close()
    accelerator.close()
    names = [call[0] for call in torch_.calls]
    assert names == [
        "register", "to", "to", "to", "record", "wait_event", *["record_stream"] * 3,
        "record", "wait", "record", "synchronize", "unregister", "synchronize",
    ]  # fmt: skip
    assert torch_.calls[0] == ("register", slab.address + 4096, 4096, 0)
    assert torch_.calls[1] == ("to", TARGET, True)
    assert ("unregister", slab.address + 4096) in torch_.calls
    assert torch_.contexts == {1}, "no context on the device that is current elsewhere"


def test_each_slot_is_page_locked_once() -> None:
    slab, torch_ = Memory(writable=True), FakeTorch()
    accelerator = CudaAccelerator(torch_, TARGET, slab)
    accelerator.copy({"label": np.zeros(3)})
    assert not accelerator.locks.slots, "it is in no slot"
    for slot in (2, 0, 2, 1, 0, 1):
        accelerator.copy(slab.arrays(slot))
    locked = [call[1] for call in torch_.calls if call[0] == "register"]
    assert locked == [slab.address + slot * 4096 for slot in (2, 0, 1)]
    accelerator.close()
    assert sorted(locked) == sorted(call[1] for call in torch_.calls if call[0] == "unregister")


@pytest.mark.parametrize(
    ("writable", "limit", "told"),
    [
        (False, 2**16, None),
        (True, 2**13, r"0.0 MiB \(RLIMIT_MEMLOCK\): raise the limit: ulimit -l .*memlock=-1"),
        (True, resource.RLIM_INFINITY, r"unlimited \(RLIMIT_MEMLOCK\): lower batch_size"),
    ],
)
def test_without_page_locking_copies_still_work(writable, limit, told, monkeypatch, caplog) -> None:
    """With a driver that refuses, and a slab that may not be locked."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    slab, torch_ = Memory(writable=writable), FakeTorch(refuse=True)
    accelerator = CudaAccelerator(torch_, TARGET, slab)
    with caplog.at_level(logging.WARNING, "stoker.client"):
        for slot in range(3):
            accelerator.copy(slab.arrays(slot))
    assert not accelerator.locks.slots
    accelerator.close()
    names = [call[0] for call in torch_.calls]
    assert "unregister" not in names
    assert names.count("register") == names.count("fill") == writable, "it is not tried again"
    assert torch_.contexts == {1}
    if told is None:
        assert not caplog.records
    else:
        (record,) = caplog.records
        assert "failed (out of memory): batches are copied from pageable memory" in record.message
        assert re.search(told, record.message)


@pytest.mark.parametrize("device", ["mps", "xpu", "xpu:1"])
def test_devices_without_copies_ahead_are_refused(daemon, device: str) -> None:
    message = rf"device='{device}': expected 'cpu', .*use device='cpu', and batch.to\('{device}'\)"
    with pytest.raises(UsageError, match=message):
        load(daemon, device=device)


def test_a_device_number_that_is_not_there_is_refused(daemon, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match=r"device='cuda:2': expected a number below 2, .*rank"):
        load(daemon, device="cuda:2")


def test_the_current_device_is_the_one_at_the_start(monkeypatch) -> None:
    """A rank sets its device, makes a loader, and may use another device for a moment."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert Target("cuda")._device == torch.device("cuda:1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_modules_on_a_real_device(make_daemon) -> None:
    daemon = make_daemon(steps=40)
    with load(daemon, device="cuda", on_device=[Normalize(layout="CHW")]) as loader:
        for step, batch in enumerate(loader):
            wanted = Normalize(layout="CHW")(torch.from_numpy(daemon.batch(0, step)["image"]))
            assert torch.equal(batch.image.cpu(), wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_real_device(make_daemon, same) -> None:
    daemon = make_daemon(steps=40)
    last = torch.cuda.device_count() - 1
    with load(daemon, device=f"cuda:{last}") as loader:
        for step, batch in enumerate(loader):
            assert batch.image.is_cuda
            same(daemon, batch.to("cpu"), 0, step)
        assert loader.statistics().copied == 0
        assert loader._connection.source._accelerator.locks.slots
    assert last == 0 or not torch._C._cuda_hasPrimaryContext(0), "a context on another device"
