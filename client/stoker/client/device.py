"""The target of batches: NumPy arrays, torch tensors in the slot, or copies on a CUDA device.

Modules (`on_device`) run on the tensors: on a CUDA device on the stream of the copy, right after
it.

Copies to a CUDA device run on a side stream, up to `AHEAD` batches before the caller asks for them,
and a slot is released when the event of its copy has passed. The caller's stream waits for the
event, not the caller's thread, unless the device falls behind: at most `IN_FLIGHT` batches are
being copied, and the work on at most `IN_FLIGHT` batches is queued on the device. So both memories
are bounded, however far a loop that never waits for its device could run ahead.
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from stoker.client.batch_delivery import Delivery
from stoker.client.cuda_copies import CudaAccelerator
from stoker.client.device_modules import BatchModules, Modules, checked_modules
from stoker.client.slab_map import SlabMap
from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Opened

AHEAD = 2
LEASES = 2
IN_FLIGHT = AHEAD + LEASES
"""Batches that are being copied, or used, at most; each of the former holds a slot."""

Arrays = Mapping[str, Any]
Place = tuple[int, int]
"""Epoch and step."""


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

    def run(self, change: Callable[[], Arrays]) -> tuple[Arrays, Any]:
        """Call a function after the copies; return its result and the event that passes then."""
        ...

    def hand_over(self, tensors: Arrays, event: Any) -> None:
        """Make the caller's stream wait for the event."""
        ...

    def mark(self) -> Any:
        """Return an event that passes when all that the caller has queued so far is done."""
        ...

    def passed(self, event: Any) -> bool:
        """Return whether the work before an event is done: a source may be reused."""
        ...

    def wait(self, event: Any) -> None:
        """Wait until the work before an event is done."""
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

    def __init__(self, device: object, on_device: Modules | None = None) -> None:
        """Resolve the arguments; imports torch for any device but `cpu` and `numpy`.

        Raises:
            UsageError: the device is unknown or missing, or torch is missing, or `on_device` has
                something else than modules.
        """
        self._chains = checked_modules(on_device)
        if self._chains and str(device) == "numpy":
            raise UsageError(
                "on_device: modules take tensors, and device='numpy' gives arrays: use"
                " device='cpu' or device='cuda'"
            )
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
        self.leases += AHEAD * self.is_cuda

    @property
    def is_cuda(self) -> bool:
        """Whether batches are copied to a CUDA device."""
        return self._device is not None and self._device.type == "cuda"

    def load(self) -> None:
        """Import torch if batches shall be its tensors and it is not imported yet.

        That takes seconds, in which a private daemon can start.
        """
        if self._to_load:
            self._torch, self._to_load = _torch_or_none(), False

    def source(self, delivery: Delivery, slab: SlabMap, opened: Opened, rank: int) -> BatchSource:
        """Return a source of batches on this device.

        Raises:
            UsageError: a module is for an output that the stream does not have.
        """
        self.load()
        modules = None
        if self._chains:
            modules = BatchModules(
                self._torch, self._chains, self._device, opened.outputs, opened.stream, rank
            )
        if self._device is not None and self._device.type == "cuda":
            return AheadSource(delivery, CudaAccelerator(self._torch, self._device, slab), modules)
        convert = self._torch.from_numpy if self._torch is not None else None
        return HostSource(delivery, convert, modules)


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
            f"device={device!r}: expected {DEVICES}; batches are copied ahead of use to CUDA"
            f" devices alone: use device='cpu', and batch.to({str(found)!r}) in the loop"
        )
    if found.type == "cuda":
        return _checked_cuda(torch, device, found.index)
    return found


def _checked_cuda(torch: Any, device: object, index: int | None) -> Any:
    """Return a CUDA device with its number: the current device may be another one later."""
    if not torch.cuda.is_available():
        raise UsageError(f"device={device!r}: torch finds no CUDA device; use device='cpu'")
    count = torch.cuda.device_count()
    if index is not None and index >= count:
        raise UsageError(
            f"device={device!r}: expected a number below {count}, since this process sees {count}"
            " CUDA devices (CUDA_VISIBLE_DEVICES); give the local rank as the number"
        )
    return torch.device("cuda", torch.cuda.current_device() if index is None else index)


class HostSource:
    """Batches in host memory, directly in their slots."""

    def __init__(self, delivery: Delivery, convert: Any, modules: BatchModules | None) -> None:
        self._delivery = delivery
        self._convert = convert
        self._modules = modules

    def get(self, epoch: int, step: int) -> Arrays:
        """Return the outputs of a batch; waits for it."""
        arrays = self._delivery.take(epoch, step)
        if self._convert is None:
            return arrays
        tensors = {name: self._convert(array) for name, array in arrays.items()}
        return tensors if self._modules is None else self._modules(tensors, (epoch, step))

    def close(self) -> None:
        """Do nothing: this source holds nothing."""


class AheadSource:
    """Batches on a device, copied before the caller asks for them."""

    def __init__(
        self,
        delivery: Delivery,
        accelerator: Accelerator,
        modules: Callable[[Arrays, Place], Arrays] | None = None,
    ) -> None:
        self._delivery = delivery
        self._accelerator = accelerator
        self._modules = modules
        self._ahead: deque[tuple[Place, Arrays | Exception, Any]] = deque()
        self._copying: deque[tuple[Any, Mapping[str, np.ndarray]]] = deque()
        self._used: deque[Any] = deque()

    def get(self, epoch: int, step: int) -> Arrays:
        """Return the outputs of a batch; start to copy the next ones that have arrived."""
        self._used.append(self._accelerator.mark())  # all that uses the batches before this one
        if len(self._used) > IN_FLIGHT:
            self._accelerator.wait(self._used.popleft())
        if not self._ahead or self._ahead[0][0] != (epoch, step):
            self._ahead.clear()
            self._begin((epoch, step))
        _, tensors, event = self._ahead.popleft()
        last = self._ahead[-1][0] if self._ahead else (epoch, step)
        self._fill(self._delivery.following(*last))
        if isinstance(tensors, Exception):
            raise tensors
        self._accelerator.hand_over(tensors, event)
        return tensors

    def _fill(self, place: Place) -> None:
        self._retire()
        while (
            len(self._ahead) < AHEAD
            and len(self._copying) < IN_FLIGHT
            and self._delivery.is_there(*place)
        ):
            self._begin(place)
            place = self._delivery.following(*place)

    def _begin(self, place: Place) -> None:
        self._retire()
        if len(self._copying) >= IN_FLIGHT:
            self._accelerator.wait(self._copying[0][0])
            self._retire()
        arrays = self._delivery.take(*place)
        tensors, event = self._accelerator.copy(arrays)
        self._copying.append((event, arrays))
        if self._modules is None:
            self._ahead.append((place, tensors, event))
        else:
            self._ahead.append((place, *self._changed(tensors, place)))

    def _changed(self, tensors: Arrays, place: Place) -> tuple[Arrays | Exception, Any]:
        """Run the modules; what they raise is the caller's when it asks for the batch."""
        assert self._modules is not None
        try:
            return self._accelerator.run(partial(self._modules, tensors, place))
        except Exception as error:
            return error, None

    def _retire(self) -> None:
        while self._copying and self._accelerator.passed(self._copying[0][0]):
            self._copying.popleft()

    def close(self) -> None:
        """Wait for all copies, then release the device and all slots."""
        self._ahead.clear()
        self._accelerator.close()
        self._copying.clear()
        self._used.clear()
