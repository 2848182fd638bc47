"""Reserve and close slabs outside the daemon's loop, within a limit on their sum.

Reserving a gibibyte takes a good part of a second, so `Reserver` does it, and the final close, in
its own thread; a descriptor wakes the loop when that is done. The thread does nothing else and
touches no state of the daemon.

Invariant: granted bytes == sum of the memory of the slabs that is being reserved, held or being
freed, and granted <= limit. Sizes are bytes. The thread does its jobs in order; what follows from a
job is done by `collect`, in the daemon's thread.
"""

import os
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial

from stoker.protocol.errors import ResourceError
from stoker.server.daemon.slabs import SlabMemory, human, parts_of, too_little
from stoker.server.settings.cgroup import Room, room

Ended = list[tuple[int, ResourceError | None]]
Outcome = Callable[[], Ended]
"""The follow-up of a job, for the daemon's thread."""


class Reserver:
    """Reserves and closes slabs in one helper thread, within a limit on their sum.

    Call `reserve`, wait until `fileno` is readable, fetch the outcomes with `collect`. All methods
    are for one thread, the daemon's.
    """

    def __init__(
        self, limit_bytes: int, *, room: Callable[[], Room] = room, limit_name: str = "memory.limit"
    ) -> None:
        self._limit_bytes = limit_bytes
        self._limit_name = limit_name
        self._room = room
        self._granted = 0
        self._slabs: dict[int, SlabMemory] = {}
        self._held: dict[int, int] = {}
        self._pending: set[int] = set()
        self._unwanted: set[int] = set()
        self._jobs: queue.SimpleQueue[Callable[[], Outcome] | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="stoker-reserver", daemon=True)
        self._thread.start()

    @property
    def granted_bytes(self) -> int:
        """Bytes of all slabs that are being reserved, held or closed."""
        return self._granted

    def fileno(self) -> int:
        """Return the descriptor that is readable when `collect` has something."""
        return self._bell

    def reserve(
        self, slab: int, size_bytes: int, *, capacity_bytes: int = 0, needed_bytes: int = 0
    ) -> ResourceError | None:
        """Start to reserve a slab; the outcome comes from `collect`.

        Args:
            slab: its number.
            size_bytes: the memory that it gets now.
            capacity_bytes: its size, with parts that have no memory; 0: `size_bytes`.
            needed_bytes: the memory that it needs with the next growth; 0: `size_bytes`.

        Returns:
            The error if the slab would exceed the limit on the sum of all slabs, else None.
        """
        refusal = self._grant(size_bytes)
        if refusal is not None:
            return refusal
        self._pending.add(slab)

        def job() -> Outcome:
            try:
                made = SlabMemory.reserve(
                    size_bytes,
                    capacity_bytes=capacity_bytes,
                    needed_bytes=needed_bytes,
                    room=self._room,
                    canceled=lambda: self._closing.is_set() or slab in self._unwanted,
                )
            except (ResourceError, OSError, MemoryError) as error:
                return partial(self._not_reserved, slab, size_bytes, _typed(error, size_bytes))
            return partial(self._reserved, slab, size_bytes, made)

        self._jobs.put(job)
        return None

    def grow(self, slab: int, slots: Sequence[int], slot_bytes: int) -> ResourceError | None:
        """Start to reserve the memory of further slots; as `reserve`."""
        size_bytes = len(slots) * slot_bytes
        refusal = self._grant(size_bytes)
        if refusal is not None:
            return refusal
        memory, parts = self._slabs[slab], parts_of(slots, slot_bytes)

        def job() -> Outcome:
            error: ResourceError | None = None
            try:
                memory.fill(parts, room=self._room, canceled=self._closing.is_set)
            except (ResourceError, OSError, MemoryError) as refusal:
                error = _typed(refusal, size_bytes)
            return partial(self._grown, slab, size_bytes, memory, error)

        self._jobs.put(job)
        return None

    def shrink(self, slab: int, slots: Sequence[int], slot_bytes: int) -> None:
        """Free the memory of slots."""
        size_bytes = len(slots) * slot_bytes
        memory, parts = self._slabs[slab], parts_of(slots, slot_bytes)
        self._held[slab] -= size_bytes

        def job() -> Outcome:
            memory.punch(parts)
            return partial(self._give_back, size_bytes)

        self._jobs.put(job)

    def collect(self) -> Ended:
        """Return (slab, None or the error) for all reservations that ended since the last call."""
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return []
        ended: Ended = []
        while True:
            try:
                outcome = self._outcomes.get_nowait()
            except queue.Empty:
                return ended
            try:
                ended += outcome()
            except Exception:
                self._outcomes.put(partial(list, ended))  # with the others, next time
                os.eventfd_write(self._bell, 1)
                raise

    def __getitem__(self, slab: int) -> SlabMemory:
        """Return a reserved slab."""
        return self._slabs[slab]

    def free(self, slab: int) -> None:
        """Free a slab that is held or still being reserved."""
        if slab in self._pending:
            self._unwanted.add(slab)
            return
        memory, size_bytes = self._slabs.pop(slab), self._held.pop(slab)
        self._put_close(memory, size_bytes)

    def discard(self, slab: int) -> None:
        """Free a slab if there is one."""
        if slab in self._pending or slab in self._slabs:
            self.free(slab)

    def close(self) -> None:
        """Close everything and end the thread."""
        self._closing.set()
        for slab in list(self._slabs):
            self.free(slab)
        self._jobs.put(None)
        self._thread.join()
        self._collect_rest()
        os.close(self._bell)

    def _collect_rest(self) -> None:
        """Close the slabs that were reserved just before the end."""
        while True:
            try:
                self._outcomes.get_nowait()()
            except queue.Empty:
                break
        for memory in self._slabs.values():
            memory.close()

    def _grant(self, size_bytes: int) -> ResourceError | None:
        left = max(0, self._limit_bytes - self._granted)
        if size_bytes > left:
            used = f"{human(self._limit_bytes)}, of which {human(self._granted)} are in use"
            return too_little(size_bytes, left, Room(left, f"{self._limit_name} = {used}"))
        self._granted += size_bytes
        return None

    def _put_close(self, memory: SlabMemory, size_bytes: int) -> None:
        def job() -> Outcome:
            memory.close()
            return partial(self._give_back, size_bytes)

        self._jobs.put(job)

    def _reserved(self, slab: int, size_bytes: int, memory: SlabMemory) -> Ended:
        self._pending.discard(slab)
        if slab in self._unwanted:
            self._unwanted.discard(slab)
            if self._closing.is_set():
                memory.close()
            else:
                self._put_close(memory, size_bytes)
            return []
        self._slabs[slab], self._held[slab] = memory, size_bytes
        return [(slab, None)]

    def _not_reserved(self, slab: int, size_bytes: int, error: ResourceError) -> Ended:
        self._pending.discard(slab)
        self._granted -= size_bytes
        if slab in self._unwanted:
            self._unwanted.discard(slab)
            return []
        return [(slab, error)]

    def _grown(
        self, slab: int, size_bytes: int, memory: SlabMemory, error: ResourceError | None
    ) -> Ended:
        if self._slabs.get(slab) is not memory:  # it was freed meanwhile, with what it got
            self._granted -= size_bytes
            return []
        if error is not None:
            self._granted -= size_bytes
        else:
            self._held[slab] += size_bytes
        return [(slab, error)]

    def _give_back(self, size_bytes: int) -> Ended:
        self._granted -= size_bytes
        return []

    def _work(self) -> None:
        """Run in the helper thread."""
        while (job := self._jobs.get()) is not None:
            try:
                outcome = job()
            except Exception as error:  # the loop raises it; this thread serves other slabs
                outcome = partial(_raise, error)
            self._outcomes.put(outcome)
            os.eventfd_write(self._bell, 1)


def _typed(error: Exception, size_bytes: int) -> ResourceError:
    if isinstance(error, ResourceError):
        return error
    reason = f"{human(size_bytes)} could not be reserved: {error or type(error).__name__}"
    return ResourceError(reason, reason=reason, needed_bytes=size_bytes)


def _raise(error: Exception) -> Ended:
    raise error
