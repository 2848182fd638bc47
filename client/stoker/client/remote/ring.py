"""The ring: memory of this process that takes the place of the daemon's slab.

It is a sealed memory file, mapped once here for the receiving thread and once by `SlabMap` for the
arrays, so leases and page-locking are the same as on the daemon's host. The reader's thread takes a
slot for each batch, the caller's thread returns it. The slot that was returned last is used next:
it is still in the caches.

Invariant: a slot is free, or being filled, or announced, or leased. Generations count up per slot.
"""

import fcntl
import mmap
import os
import threading
from collections.abc import Iterable

from stoker.protocol.errors import ProtocolError, ResourceError


class Ring:
    """Slots in this process's memory.

    Attributes:
        slots: number of slots.
        slot_bytes: size of one.
        descriptor: of the memory file, until `close`.
    """

    def __init__(self, slots: int, slot_bytes: int) -> None:
        """Reserve the memory in full.

        Raises:
            ResourceError: this host has not enough memory.
        """
        self.slots, self.slot_bytes = slots, slot_bytes
        size_bytes = slots * slot_bytes
        self.descriptor = -1
        try:
            flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
            self.descriptor = os.memfd_create("stoker-ring", flags)
            os.ftruncate(self.descriptor, size_bytes)
            os.posix_fallocate(self.descriptor, 0, size_bytes)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self._map = mmap.mmap(self.descriptor, size_bytes)
        except (OSError, OverflowError, ValueError) as error:
            if self.descriptor >= 0:
                os.close(self.descriptor)
            reason = getattr(error, "strerror", None) or str(error)
            raise ResourceError(
                f"this host cannot reserve {size_bytes} bytes for {slots} batches of {slot_bytes}"
                f" bytes from the daemon: {reason}; lower batch_size or prefetch, or use a host"
                " with more memory",
                needed_bytes=size_bytes,
            ) from None
        self._map.madvise(mmap.MADV_DONTFORK)
        self._view = memoryview(self._map)
        self._generations = [0] * slots
        self._free = list(reversed(range(slots)))
        self._changed = threading.Condition()
        self._closed = False

    def take(self) -> int | None:
        """Return a free slot; waits for one. None once the ring is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._closed)
            if self._closed:
                return None
            slot = self._free.pop()
            self._generations[slot] += 1
            return slot

    def generation(self, slot: int) -> int:
        """Return how often a slot was taken."""
        return self._generations[slot]

    def part(self, slot: int, size_bytes: int) -> memoryview:
        """Return the first bytes of a slot.

        Raises:
            ProtocolError: the slot is smaller.
        """
        if not 1 <= size_bytes <= self.slot_bytes:
            raise ProtocolError(
                f"expected a batch of 1 to {self.slot_bytes} bytes, the size of a slot, got"
                f" {size_bytes}"
            )
        start = slot * self.slot_bytes
        return self._view[start : start + size_bytes]

    def release(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Return slots, given as (slot, generation)."""
        with self._changed:
            for slot, generation in pairs:
                if self._generations[slot] == generation and slot not in self._free:
                    self._free.append(slot)
            self._changed.notify()

    def close(self) -> None:
        """Let `take` return None, and close the file; arrays in the slots stay valid."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        os.close(self.descriptor)
