"""The target of batches: NumPy arrays, torch tensors in the slot, or copies on a CUDA device.

For a CUDA device each slot is page-locked before its first copy (`cudaHostRegister`): others may
have no memory yet, and locking would make this process pay for it. Copies run on a side stream, up
to `AHEAD` batches before the caller asks for them, and a slot is released when the event of its
copy has passed. The caller's stream waits for the event, never the caller's thread. If page-locking
fails (a memory lock limit), the same copies run from pageable memory: slower, with the same bytes.
A privately mapped slab is never page-locked, since locking would make a private copy of its pages.
"""

import sys
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol

import numpy as np

from stoker.client.batch_delivery import Delivery
from stoker.client.slab_map import SlabMap
from stoker.protocol.errors import UsageError

AHEAD = 2
LEASES = 2

Arrays = Mapping[str, Any]


class BatchSource(Protocol):
    """Gives the outputs of the batch at a place."""

    def get(self, epoch: int, step: int) -> Arrays:
        """Return the outputs of a batch; waits for it."""
        ...

    def close(self) -> None:
        """Release the device and all slots."""
        ...


class Accelerator(Protocol):
    """The operations of a device that `AheadSource` needs."""

    def copy(self, arrays: Mapping[str, np.ndarray]) -> tuple[Arrays, Any]:
        """Start a copy; return the tensors and the event that passes when it ends."""
        ...

    def hand_over(self, tensors: Arrays, event: Any) -> None:
        """Make the caller's stream wait for the event."""
        ...

    def passed(self, event: Any) -> bool:
        """Return whether the copy is done and its source may be reused."""
        ...

    def close(self) -> None:
        """Wait for all copies and undo the page-locking."""
        ...


DEVICES: Final = "'cpu', 'numpy' or 'cuda[:number]'"


class Target:
    """The caller's argument `device`, resolved.

    Attributes:
        leases: number of slots to request in addition to the prefetched ones.
    """

    def __init__(self, device: object) -> None:
        """Resolve the argument; imports torch for any device but `cpu` and `numpy`.

        Raises:
            UsageError: the device is unknown or missing, or torch is missing.
        """
        self._torch: Any = None
        self._device: Any = None
        self._to_load = str(device) == "cpu" and "torch" not in sys.modules
        self.leases = LEASES
        if str(device) == "numpy" or self._to_load:
            return
        self._torch = _torch_or_none()
        if self._torch is None:
            if str(device) != "cpu":
                raise UsageError(f"device={device!r}: torch is not installed; use device='numpy'")
            return
        self._device = _checked_device(self._torch, device)
        self.leases += AHEAD * (self._device.type == "cuda")

    def load(self) -> None:
        """Import torch if batches shall be its tensors and it is not imported yet.

        That takes seconds, in which a private daemon can start.
        """
        if self._to_load:
            self._torch, self._to_load = _torch_or_none(), False

    def source(self, delivery: Delivery, slab: SlabMap) -> BatchSource:
        """Return a source of batches on this device."""
        self.load()
        if self._device is not None and self._device.type == "cuda":
            return AheadSource(delivery, CudaAccelerator(self._torch, self._device, slab))
        return HostSource(delivery, self._torch.from_numpy if self._torch is not None else None)


def _torch_or_none() -> Any:
    try:
        import torch  # noqa: PLC0415  (the client works without it, and never loads it unasked)
    except ImportError:
        return None
    return torch


def _checked_device(torch: Any, device: object) -> Any:
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise UsageError(f"device={device!r}: expected {DEVICES}") from None
    if found.type not in ("cpu", "cuda"):
        raise UsageError(
            f"device={device!r}: expected {DEVICES}; use 'cpu' and move the batch with"
            " batch.to(device)"
        )
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device={device!r}: torch finds no CUDA device; use device='cpu'")
    return found


class HostSource:
    """Batches in host memory, directly in their slots."""

    def __init__(self, delivery: Delivery, convert: Any) -> None:
        self._delivery = delivery
        self._convert = convert

    def get(self, epoch: int, step: int) -> Arrays:
        """Return the outputs of a batch; waits for it."""
        arrays = self._delivery.take(epoch, step)
        if self._convert is None:
            return arrays
        return {name: self._convert(array) for name, array in arrays.items()}

    def close(self) -> None:
        """Do nothing: this source holds nothing."""


class AheadSource:
    """Batches on a device, copied before the caller asks for them."""

    def __init__(self, delivery: Delivery, accelerator: Accelerator) -> None:
        self._delivery = delivery
        self._accelerator = accelerator
        self._ahead: deque[tuple[tuple[int, int], Arrays, Any]] = deque()
        self._copying: deque[tuple[Any, Mapping[str, np.ndarray]]] = deque()

    def get(self, epoch: int, step: int) -> Arrays:
        """Return the outputs of a batch; start to copy the next ones that have arrived."""
        if not self._ahead or self._ahead[0][0] != (epoch, step):
            self._ahead.clear()
            self._begin((epoch, step))
        _, tensors, event = self._ahead.popleft()
        last = self._ahead[-1][0] if self._ahead else (epoch, step)
        self._fill(self._delivery.following(*last))
        self._retire()
        self._accelerator.hand_over(tensors, event)
        return tensors

    def _fill(self, place: tuple[int, int]) -> None:
        while len(self._ahead) < AHEAD and self._delivery.is_there(*place):
            self._begin(place)
            place = self._delivery.following(*place)

    def _begin(self, place: tuple[int, int]) -> None:
        self._retire()
        arrays = self._delivery.take(*place)
        tensors, event = self._accelerator.copy(arrays)
        self._copying.append((event, arrays))
        self._ahead.append((place, tensors, event))

    def _retire(self) -> None:
        while self._copying and self._accelerator.passed(self._copying[0][0]):
            self._copying.popleft()

    def close(self) -> None:
        """Wait for all copies, then release the device and all slots."""
        self._ahead.clear()
        self._accelerator.close()
        self._copying.clear()


class CudaAccelerator:
    """A CUDA device through torch.

    Attributes:
        page_locked: slots that are registered, so that their copies overlap with computation.
    """

    def __init__(self, torch: Any, device: Any, slab: SlabMap) -> None:
        self._torch = torch
        self._device = device
        self._slab = slab
        self._stream = torch.cuda.Stream(device)
        self.page_locked: set[int] = set()
        self._may_lock = slab.writable

    def copy(self, arrays: Mapping[str, np.ndarray]) -> tuple[Arrays, Any]:
        """Start a copy on the side stream."""
        if self._may_lock and len(self.page_locked) < self._slab.slots:
            self._lock(arrays)
        with self._torch.cuda.stream(self._stream):
            tensors = {
                name: self._torch.from_numpy(array).to(self._device, non_blocking=True)
                for name, array in arrays.items()
            }
            event = self._torch.cuda.Event()
            event.record(self._stream)
        return tensors, event

    def _lock(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Page-lock the slot that arrays are in; small ones were copied out of it."""
        slab = self._slab
        offsets = (array.ctypes.data - slab.address for array in arrays.values())
        inside = next((offset for offset in offsets if 0 <= offset < slab.size_bytes), None)
        if inside is None or (slot := inside // slab.slot_bytes) in self.page_locked:
            return
        address = slab.address + slot * slab.slot_bytes
        with self._torch.cuda.device(self._device):
            answer = self._torch.cuda.cudart().cudaHostRegister(address, slab.slot_bytes, 0)
        self._may_lock = int(answer) == 0
        if self._may_lock:
            self.page_locked.add(slot)

    def hand_over(self, tensors: Arrays, event: Any) -> None:
        """Make the current stream wait, and record in the allocator that it uses the tensors."""
        current = self._torch.cuda.current_stream(self._device)
        current.wait_event(event)
        for tensor in tensors.values():
            tensor.record_stream(current)

    def passed(self, event: Any) -> bool:
        """Return whether the copy is done."""
        return bool(event.query())

    def close(self) -> None:
        """Wait for the side stream and undo the page-locking."""
        self._stream.synchronize()
        while self.page_locked:
            start = self.page_locked.pop() * self._slab.slot_bytes
            self._torch.cuda.cudart().cudaHostUnregister(self._slab.address + start)
