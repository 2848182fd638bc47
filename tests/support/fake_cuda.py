"""A fake of as much of torch as copies to a CUDA device use; it records calls."""

from types import SimpleNamespace
from typing import Any


class FakeTorch:
    """Takes the place of the module torch.

    Attributes:
        calls: names of calls, with their arguments.
        contexts: devices that were current at calls for which CUDA makes a context; streams and
            events choose their device themselves once they are made.
    """

    def __init__(self, *, refuse: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.contexts: set[int] = set()
        self.current = [0]
        runtime = SimpleNamespace(
            cudaHostRegister=lambda *a: self.note("register", *a) or 2 * refuse,
            cudaHostUnregister=lambda *a: self.note("unregister", *a) or 0,
            cudaGetErrorString=lambda code: "out of memory",
        )
        here = FakeStream(self)
        self.cuda = SimpleNamespace(
            Stream=lambda device: self.touch() or FakeStream(self),
            Event=lambda: FakeEvent(self),
            device=lambda device: FakeDevice(self, device),
            stream=lambda stream: stream,
            current_stream=lambda device: here,
            cudart=lambda: runtime,
        )

    def touch(self) -> None:
        self.contexts.add(self.current[-1])

    def note(self, *call: object) -> None:
        self.touch()
        self.calls.append(call)

    def from_numpy(self, array: object) -> "FakeTensor":
        return FakeTensor(self)

    def empty(self, count: int, device: object) -> "FakeTensor":
        return FakeTensor(self)


class FakeDevice:
    """The context manager that makes a device the current one."""

    def __init__(self, torch: FakeTorch, device: object) -> None:
        self._torch, self._number = torch, int(str(device).partition(":")[2])

    def __enter__(self) -> None:
        self._torch.current.append(self._number)

    def __exit__(self, *_: object) -> None:
        self._torch.current.pop()


class FakeStream:
    """A stream; to enter and leave it sets the device that was current before."""

    def __init__(self, torch: FakeTorch) -> None:
        self._torch = torch

    def __enter__(self) -> None:
        self._torch.touch()

    def __exit__(self, *_: object) -> None:
        self._torch.touch()

    def wait_stream(self, stream: object) -> None:
        """Record an event on a stream, and wait for it."""
        self._torch.touch()

    def wait_event(self, event: object) -> None:
        self._torch.calls.append(("wait_event", event))

    def synchronize(self) -> None:
        self._torch.calls.append(("synchronize",))


class FakeEvent:
    """An event that has passed."""

    def __init__(self, torch: FakeTorch) -> None:
        self._torch = torch

    def record(self, stream: object) -> None:
        self._torch.note("record", self)

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        self._torch.calls.append(("wait", self))


class FakeTensor:
    """A tensor without values."""

    def __init__(self, torch: FakeTorch) -> None:
        self._torch = torch

    def to(self, device: object, non_blocking: bool) -> "FakeTensor":
        self._torch.note("to", device, non_blocking)
        return self

    def record_stream(self, stream: object) -> None:
        self._torch.calls.append(("record_stream", self))

    def fill_(self, value: int) -> None:
        """Launch a kernel: torch then raises the error that CUDA has kept."""
        self._torch.note("fill")
        raise RuntimeError("CUDA error: out of memory")
