"""Leases: which slots the caller still uses, and giving them back.

A lease is held by the arrays that lie in its slot: each array's base object refers to it, views and
tensors made from them keep the base alive, and when the last one dies the lease's finalizer queues
(slot, generation). It does nothing else (no lock, no system call but asking for the process id), so
it may run in any thread and inside the garbage collector; in a forked child it does nothing at all.
The loader sends what was queued with its next call.

Invariants: leased slots <= slots - 2, since beyond that a batch is copied out at delivery and its
slot is free at once; so a caller that keeps every batch gets copies, never a hang, and no slot that
an array can still see is written again. Outputs up to `COPY_BYTES` are always copied out, for they
would pin a whole slot (the labels a caller collects over an epoch).
"""

import os
from collections import deque
from collections.abc import Iterable

import numpy as np

from stoker.client.slab import SlabMap
from stoker.protocol.layout import Placed

COPY_BYTES = 65536

Slot = tuple[int, int]


class Lease:
    """A hold on one slot of one generation; dies with the last array in it."""

    __slots__ = ("_pid", "_queue", "generation", "slab", "slot")

    def __init__(self, slab: SlabMap, slot: int, generation: int, queue: deque[Slot]) -> None:
        self.slab = slab
        self.slot = slot
        self.generation = generation
        self._queue = queue
        self._pid = os.getpid()

    def view(self, placed: Placed) -> np.ndarray:
        """Return an output as an array in the slot, without a copy."""
        return np.asarray(_Region(self, placed))

    def __del__(self, _getpid: object = os.getpid) -> None:
        if _getpid() == self._pid:  # type: ignore[operator]
            self._queue.append((self.slot, self.generation))


class _Region:
    """The base object of an array in a slot: NumPy reads its address and keeps it alive."""

    __slots__ = ("__array_interface__", "lease")

    def __init__(self, lease: Lease, placed: Placed) -> None:
        slab = lease.slab
        self.lease = lease
        self.__array_interface__ = {
            "version": 3,
            "shape": placed.shape,
            "typestr": np.dtype(placed.dtype).str,
            "data": (slab.address + lease.slot * slab.slot_bytes + placed.offset, False),
        }


class LeaseBook:
    """The leases of one session.

    Attributes:
        copied: batches copied out whole because too many slots were leased.
    """

    def __init__(self, slab: SlabMap) -> None:
        self.slab = slab
        self.copied = 0
        self._limit = max(slab.slots - 2, 0)
        self._queue: deque[Slot] = deque()
        self._held: dict[int, int] = {}
        self._free: list[Slot] = []

    @property
    def leased(self) -> int:
        """Slots that arrays of the caller hold."""
        self._collect()
        return len(self._held)

    @property
    def owed(self) -> int:
        """Slots that the daemon does not have back: leased, or free and not yet given back."""
        self._collect()
        return len(self._held) + len(self._free)

    def holds(self, slot: int) -> bool:
        """Whether an array of the caller lies in that slot."""
        self._collect()
        return slot in self._held

    def take(self, slot: int, generation: int, outputs: Iterable[Placed]) -> dict[str, np.ndarray]:
        """Return a batch's outputs by name: in the slot where that is allowed, else copied."""
        self._collect()
        copy_all = len(self._held) >= self._limit
        self.copied += copy_all
        lease = Lease(self.slab, slot, generation, self._queue)
        self._held[slot] = generation
        arrays = {}
        for placed in outputs:
            view = lease.view(placed)
            arrays[placed.name] = (
                view.copy() if copy_all or placed.size_bytes <= COPY_BYTES else view
            )
        return arrays

    def refuse(self, slot: int, generation: int) -> None:
        """Give back a slot that was announced and will not be used."""
        self._free.append((slot, generation))

    def free_slots(self) -> list[Slot]:
        """Return the slots to give back to the daemon; `forget_free` them once that is done."""
        self._collect()
        return list(self._free)

    def forget_free(self, count: int) -> None:
        """The first `count` free slots were given back."""
        del self._free[:count]

    def _collect(self) -> None:
        while self._queue:
            slot, generation = self._queue.popleft()
            if self._held.get(slot) == generation:
                del self._held[slot]
                self.slab.forget(slot)
            self._free.append((slot, generation))
