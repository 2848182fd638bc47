"""Copies to a CUDA device through torch, on a stream of their own.

Every call to CUDA runs with the target as the current device of the thread. Otherwise a training on
`cuda:1` would also get a context on `cuda:0`, which takes hundreds of megabytes there: CUDA makes
one wherever a call needs a device.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stoker.client.page_locks import PageLocks
from stoker.client.slab_map import SlabMap


class CudaAccelerator:
    """A CUDA device through torch.

    Attributes:
        locks: slots that are page-locked, so that their copies overlap with computation.
    """

    def __init__(self, torch: Any, device: Any, slab: SlabMap) -> None:
        self._torch = torch
        self._device = device
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream(device)
            self._stream.wait_stream(torch.cuda.current_stream(device))  # modules were moved there
        self.locks = PageLocks(torch, device, slab)

    def copy(self, arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], Any]:
        """Start a copy on the side stream."""
        self.locks.lock(arrays)
        with self._torch.cuda.device(self._device), self._torch.cuda.stream(self._stream):
            tensors = {
                name: self._torch.from_numpy(array).to(self._device, non_blocking=True)
                for name, array in arrays.items()
            }
            return tensors, self._recorded(self._stream)

    def run(self, change: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any], Any]:
        """Call a function on the side stream, whose result is used after the event."""
        with self._torch.cuda.device(self._device), self._torch.cuda.stream(self._stream):
            return change(), self._recorded(self._stream)

    def hand_over(self, tensors: Mapping[str, Any], event: Any) -> None:
        """Make the current stream wait, and record in the allocator that it uses the tensors."""
        current = self._torch.cuda.current_stream(self._device)
        current.wait_event(event)
        for tensor in tensors.values():
            tensor.record_stream(current)

    def mark(self) -> Any:
        """Return an event that passes when all that the caller has queued so far is done."""
        with self._torch.cuda.device(self._device):
            return self._recorded(self._torch.cuda.current_stream(self._device))

    def passed(self, event: Any) -> bool:
        """Return whether the work before an event is done."""
        return bool(event.query())

    def wait(self, event: Any) -> None:
        """Wait in this thread until the work before an event is done."""
        event.synchronize()

    def close(self) -> None:
        """Wait for the side stream and undo the page-locking."""
        self._stream.synchronize()
        self.locks.close()

    def _recorded(self, stream: Any) -> Any:
        event = self._torch.cuda.Event()
        event.record(stream)
        return event
