"""Leases: which slots the caller still uses, and their release.

The arrays in a slot hold its lease: the base object of each array refers to it, views and tensors
made from an array keep the base alive, and when the last one dies the lease's finalizer queues
(slot, generation). It does nothing else (no lock, and no system call but getpid), so it may run in
any thread and inside the garbage collector; in a forked child it does nothing at all. The loader
sends the queued slots with its next call.

Invariant: leased slots <= slots - 2. Beyond that a batch is copied out at delivery and its slot is
free at once. So a caller that keeps every batch gets copies and never hangs, and a slot is never
written again while an array can still see it. Outputs of up to `COPY_BYTES` are always copied out:
otherwise small arrays that a caller collects over an epoch, such as labels, would each hold a slot.
"""

import os
from collections import deque
from collections.abc import Iterable

import numpy as np

from stoker.client.slab import SlabMap
from stoker.protocol.layout import Placed

COPY_BYTES = 65536

SlotKey = tuple[int, int]


class Lease:
    """A hold on one slot of one generation; it dies with the last array in the slot."""

    __slots__ = ("_pid", "_queue", "generation", "slab", "slot")

    def __init__(self, slab: SlabMap, slot: int, generation: int, queue: deque[SlotKey]) -> None:
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
        slots: number of slots that the session may use, with a spare.
        copied: batches copied out completely because too many slots were leased.
    """

    def __init__(self, slab: SlabMap, slots: int | None = None) -> None:
        """Take the slab, and how many of its slots the session may use; None: all of them."""
        self.slab = slab
        self.slots = slab.slots if slots is None else slots
        self.copied = 0
        self._limit = max(self.slots - 2, 0)
        self._queue: deque[SlotKey] = deque()
        self._held: dict[int, int] = {}
        self._free: list[SlotKey] = []

    @property
    def leased(self) -> int:
        """Number of slots that arrays of the caller hold."""
        self._collect()
        return len(self._held)

    @property
    def owed(self) -> int:
        """Number of slots that the daemon waits for: leased, or free and not yet returned."""
        self._collect()
        return len(self._held) + len(self._free)

    def holds(self, slot: int) -> bool:
        """Whether an array of the caller is in that slot."""
        self._collect()
        return slot in self._held

    def take(self, slot: int, generation: int, outputs: Iterable[Placed]) -> dict[str, np.ndarray]:
        """Return a batch's outputs by name: in the slot if that is allowed, otherwise copied."""
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
        """Return a slot that was announced but will not be used."""
        self._free.append((slot, generation))

    def keep(self) -> None:
        """Copy the leased slots in their place if other sessions may get them after this one."""
        self._collect()
        for slot in self._held:
            self.slab.keep(slot)

    def free_slots(self) -> list[SlotKey]:
        """List the slots to return to the daemon; call `forget_free` after sending them."""
        self._collect()
        return list(self._free)

    def forget_free(self, count: int) -> None:
        """Remove the first `count` free slots, which were returned to the daemon."""
        del self._free[:count]

    def _collect(self) -> None:
        while self._queue:
            slot, generation = self._queue.popleft()
            if self._held.get(slot) == generation:
                del self._held[slot]
                self.slab.forget(slot)
            self._free.append((slot, generation))
