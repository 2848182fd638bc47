"""Reserve and close slabs outside the daemon's loop, within a limit on their sum.

Reserving a gibibyte takes a good part of a second, so `Reserver` does it, and the final close, in
its own thread; a descriptor wakes the loop when that is done. The thread does nothing else and
touches no state of the daemon.

Invariant: granted bytes == sum of the sizes of the slabs that are being reserved, held or being
closed, and granted <= limit. Sizes are bytes.
"""

import os
import queue
import threading
from collections.abc import Callable

from stoker.protocol.errors import ResourceError
from stoker.server.daemon.slabs import SlabMemory, human, too_little
from stoker.server.settings.cgroup import Room, room


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
        self._pending: dict[int, int] = {}
        self._unwanted: set[int] = set()
        self._asked: queue.SimpleQueue[tuple[int, int] | SlabMemory | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, SlabMemory | ResourceError] | int] = (
            queue.SimpleQueue()
        )
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

    def reserve(self, slab: int, size_bytes: int) -> ResourceError | None:
        """Start to reserve a slab; the outcome comes from `collect`.

        Returns:
            The error if the slab would exceed the limit on the sum of all slabs, else None.
        """
        left = max(0, self._limit_bytes - self._granted)
        if size_bytes > left:
            return too_little(
                size_bytes,
                left,
                Room(
                    left,
                    f"{self._limit_name} = {human(self._limit_bytes)}, of which"
                    f" {human(self._granted)} are in use",
                ),
            )
        self._granted += size_bytes
        self._pending[slab] = size_bytes
        self._asked.put((slab, size_bytes))
        return None

    def collect(self) -> list[tuple[int, ResourceError | None]]:
        """Return (slab, None or the error) for all reservations that ended since the last call."""
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return []
        ended: list[tuple[int, ResourceError | None]] = []
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                return ended
            if isinstance(answer, int):
                self._granted -= answer
            else:
                ended += self._note(*answer)

    def __getitem__(self, slab: int) -> SlabMemory:
        """Return a reserved slab."""
        return self._slabs[slab]

    def free(self, slab: int) -> None:
        """Free a slab that is held or still being reserved."""
        if slab in self._pending:
            self._unwanted.add(slab)
        else:
            self._asked.put(self._slabs.pop(slab))

    def close(self) -> None:
        """Close everything and end the thread."""
        self._closing.set()
        for slab in list(self._slabs):
            self.free(slab)
        self._asked.put(None)
        self._thread.join()
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                break
            if isinstance(answer, tuple) and isinstance(answer[1], SlabMemory):
                answer[1].close()
        os.close(self._bell)

    def _note(
        self, slab: int, outcome: SlabMemory | ResourceError
    ) -> list[tuple[int, ResourceError | None]]:
        size_bytes, unwanted = self._pending.pop(slab), slab in self._unwanted
        self._unwanted.discard(slab)
        if isinstance(outcome, ResourceError):
            self._granted -= size_bytes
            return [] if unwanted else [(slab, outcome)]
        if unwanted:
            self._asked.put(outcome)
            return []
        self._slabs[slab] = outcome
        return [(slab, None)]

    def _work(self) -> None:
        """Run in the helper thread."""
        while (asked := self._asked.get()) is not None:
            if isinstance(asked, SlabMemory):
                asked.close()
                self._answers.put(asked.size_bytes)
            else:
                slab, size_bytes = asked
                self._answers.put((slab, self._try(slab, size_bytes)))
            os.eventfd_write(self._bell, 1)

    def _try(self, slab: int, size_bytes: int) -> SlabMemory | ResourceError:
        try:
            return SlabMemory.reserve(
                size_bytes,
                room=self._room,
                cancelled=lambda: self._closing.is_set() or slab in self._unwanted,
            )
        except ResourceError as error:
            return error
