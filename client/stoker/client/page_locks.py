"""Page-locking of the slots of a slab, so that copies from them run during computation.

Each slot is page-locked before its first copy (`cudaHostRegister`): others may have no memory yet,
and locking would make this process pay for it. A privately mapped slab is never page-locked, since
locking would make a private copy of its pages.

A limit on locked memory (RLIMIT_MEMLOCK) may forbid it. NVIDIA's driver for Linux pins pages
without counting them, so a low limit alone is no reason not to try: containers have 64 KiB, and
page-locking works there. If it fails, the limit is named if it is too low, and the same copies run
from pageable memory: slower, with the same bytes. Runs in the thread that iterates over the loader.
"""

import contextlib
import logging
import resource
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from stoker.client.slab_map import SlabMap

_log = logging.getLogger("stoker.client")

REMEDY: Final = (
    "raise the limit: ulimit -l unlimited in the shell, LimitMEMLOCK=infinity in a systemd unit,"
    " --ulimit memlock=-1 for docker run"
)


class PageLocks:
    """The slots of a slab that are page-locked.

    Attributes:
        slots: numbers of these slots.
    """

    def __init__(self, torch: Any, device: Any, slab: SlabMap) -> None:
        self.slots: set[int] = set()
        self._torch = torch
        self._device = device
        self._slab = slab
        self._may_lock = slab.writable

    def lock(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Page-lock the slot that arrays are in; small ones were copied out of it."""
        slab = self._slab
        if not self._may_lock or len(self.slots) == slab.slots:
            return
        offsets = (array.ctypes.data - slab.address for array in arrays.values())
        inside = next((offset for offset in offsets if 0 <= offset < slab.size_bytes), None)
        if inside is None or (slot := inside // slab.slot_bytes) in self.slots:
            return
        address = slab.address + slot * slab.slot_bytes
        with self._torch.cuda.device(self._device):
            runtime = self._torch.cuda.cudart()
            answer = runtime.cudaHostRegister(address, slab.slot_bytes, 0)
            if int(answer) == 0:
                self.slots.add(slot)
                return
            self._may_lock = False
            self._take_error()
        reason = str(runtime.cudaGetErrorString(answer))
        _log.warning("%s", failure(slab.slot_bytes, slab.size_bytes, reason))

    def _take_error(self) -> None:
        """Take the error that CUDA keeps for the next check, which would be one of the caller's."""
        with contextlib.suppress(RuntimeError):
            self._torch.empty(1, device=self._device).fill_(1)

    def close(self) -> None:
        """Undo the page-locking; no copy may be under way."""
        if not self.slots:
            return
        with self._torch.cuda.device(self._device):
            runtime = self._torch.cuda.cudart()
            while self.slots:
                start = self.slots.pop() * self._slab.slot_bytes
                runtime.cudaHostUnregister(self._slab.address + start)


def failure(slot_bytes: int, slab_bytes: int, reason: str) -> str:
    """Return what a failure to page-lock means, and what to change.

    Args:
        slot_bytes: size of the slot that could not be locked.
        slab_bytes: size of all slots.
        reason: the driver's.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    low = limit != resource.RLIM_INFINITY and limit < slab_bytes
    said = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit / 2**20:.1f} MiB"
    remedy = REMEDY if low else "lower batch_size or prefetch, or free memory of the host"
    return (
        f"page-locking a batch of {slot_bytes / 2**20:.1f} MiB failed ({reason}): batches are"
        " copied from pageable memory, with the same bytes, but slower and not during computation."
        f" All batches take {slab_bytes / 2**20:.1f} MiB, and this process may lock {said}"
        f" (RLIMIT_MEMLOCK): {remedy}"
    )
