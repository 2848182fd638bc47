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
Neighbors that together fit into `JOINT_BYTES` are one copy, because each copy costs about as much
as a kilobyte; an array that a caller keeps may therefore hold that much.
"""

import os
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stoker.client.slab_map import SlabMap
from stoker.protocol.slot_layout import Placed

COPY_BYTES = 65536
JOINT_BYTES = 4096

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

    def array(self) -> np.ndarray:
        """Return the bytes of the slot; arrays made from it keep the lease."""
        return np.asarray(_Region(self))

    def __del__(self, _getpid: object = os.getpid) -> None:
        if _getpid() == self._pid:  # type: ignore[operator]
            self._queue.append((self.slot, self.generation))


class _Region:
    """The base object of arrays in a slot: NumPy reads its address and keeps it alive."""

    __slots__ = ("__array_interface__", "lease")

    def __init__(self, lease: Lease) -> None:
        slab = lease.slab
        self.lease = lease
        self.__array_interface__ = _bytes_at(
            slab.address + lease.slot * slab.slot_bytes, slab.slot_bytes
        )


class _Slots:
    """The base object of an array of the whole slab, for copies."""

    def __init__(self, slab: SlabMap) -> None:
        self.slab = slab
        self.__array_interface__ = _bytes_at(slab.address, slab.size_bytes)


def _bytes_at(address: int, count: int) -> dict[str, Any]:
    return {"version": 3, "shape": (count,), "typestr": "|u1", "data": (address, False)}


class _Part(NamedTuple):
    """An output: how it is made from bytes, at which offset."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


class _Copy(NamedTuple):
    """Bytes of a slot that are copied out together, and the outputs in them."""

    first: int
    stop: int
    parts: list[_Part]


class _Shapes:
    """The layout of a batch's arrays: outputs in the slot, and outputs that are copied out.

    Attributes:
        outputs: what it was made for.
        order: names of the outputs, as announced.
        placed: those that may stay in the slot.
        small: copies of those that never do.
        large: copies of the others, if they may not either.
    """

    def __init__(self, outputs: Sequence[Placed]) -> None:
        self.outputs = list(outputs)
        self.order = dict.fromkeys(placed.name for placed in outputs)
        by_offset = sorted(outputs, key=lambda placed: placed.offset)
        self.placed = [_part(p, 0) for p in by_offset if p.size_bytes > COPY_BYTES]
        self.small = _copies([p for p in by_offset if p.size_bytes <= COPY_BYTES])
        self.large = _copies([p for p in by_offset if p.size_bytes > COPY_BYTES])


def _part(placed: Placed, first: int) -> _Part:
    return _Part(placed.name, np.dtype(placed.dtype), tuple(placed.shape), placed.offset - first)


def _copies(by_offset: Sequence[Placed]) -> list[_Copy]:
    """Join neighbors into one copy as long as it is small."""
    made: list[_Copy] = []
    for placed in by_offset:
        stop = placed.offset + placed.size_bytes
        if not (made and stop - made[-1].first <= JOINT_BYTES):
            made.append(_Copy(placed.offset, stop, []))
        last = made[-1]
        last.parts.append(_part(placed, last.first))
        made[-1] = last._replace(stop=max(last.stop, stop))
    return made


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
        self._bytes = np.asarray(_Slots(slab))
        self._shapes = _Shapes([])

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
        """Return whether an array of the caller is in that slot."""
        self._collect()
        return slot in self._held

    def take(self, slot: int, generation: int, outputs: Sequence[Placed]) -> dict[str, np.ndarray]:
        """Return a batch's outputs by name: in the slot if that is allowed, otherwise copied."""
        self._collect()
        copy_all = len(self._held) >= self._limit
        self.copied += copy_all
        if outputs != self._shapes.outputs:
            self._shapes = _Shapes(outputs)
        shapes = self._shapes
        arrays: dict[str, Any] = dict(shapes.order)
        self._copy(shapes.small, slot, arrays)
        if copy_all:
            self._copy(shapes.large, slot, arrays)
        if copy_all or not shapes.placed:
            self._free.append((slot, generation))
            return arrays
        inside = Lease(self.slab, slot, generation, self._queue).array()
        self._held[slot] = generation
        for name, dtype, shape, offset in shapes.placed:
            arrays[name] = np.ndarray(shape, dtype, inside, offset)
        return arrays

    def _copy(self, copies: list[_Copy], slot: int, arrays: dict[str, Any]) -> None:
        start = slot * self.slab.slot_bytes
        for first, stop, parts in copies:
            copied = self._bytes[start + first : start + stop].copy()
            for name, dtype, shape, offset in parts:
                arrays[name] = np.ndarray(shape, dtype, copied, offset)

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
