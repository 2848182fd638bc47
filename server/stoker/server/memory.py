"""Slabs: memory that workers write and clients map, reserved in full before it is used.

A slab is a memfd: it has no name, so nothing is left behind whoever dies, and a container's small
/dev/shm does not matter. It lives as long as anybody holds its descriptor or a map of it. It is
allocated (fallocate, which touches every page, on the memory node of the calling thread), then
sealed against shrinking, growing and further sealing: a peer can neither cut it off under a
writer's feet nor make it grow. Its mode is 0600.

Reserving a gibibyte takes a good part of a second, so `Reserver` does it, and the final close, in a
thread of its own; the daemon's loop hears of the end through a descriptor. That thread does nothing
else and touches no state of the daemon.

Invariant: granted bytes = sum of the sizes of slabs that are being reserved, held or closed, and
granted <= limit. Sizes are bytes.
"""

import errno
import fcntl
import os
import queue
import threading
from collections.abc import Callable
from typing import Final

from stoker.protocol.errors import ResourceError
from stoker.server.cgroup import Room, room

SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
CHUNK_BYTES: Final = 64 * 2**20
SPARE_BYTES: Final = 64 * 2**20
_MFD_NOEXEC_SEAL: Final = 0x8
_REMEDY = (
    "lower batch_size, prefetch or the size of the outputs, end other clients, or give the daemon"
    " more memory"
)


def human(size_bytes: int) -> str:
    """Return a size in the unit that suits it: `human(3 * 2**30) == "3.0 GiB"`."""
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


class Slab:
    """One memfd of fixed size, fully allocated and sealed.

    Attributes:
        size_bytes: its size.
        descriptor: open for reading and writing, close-on-exec; -1 once closed.
    """

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self.descriptor = descriptor
        self.size_bytes = size_bytes

    @classmethod
    def reserve(
        cls,
        size_bytes: int,
        *,
        room: Callable[[], Room] = room,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> "Slab":
        """Create a slab and allocate all of it, `CHUNK_BYTES` at a time.

        Before each chunk the room is looked at again: others allocate too, and allocating beyond
        it would wake the kernel's out-of-memory killer instead of failing.

        Args:
            size_bytes: at least 1.
            room: tells how much memory may still be used.
            cancelled: asked before each chunk; True ends the work.

        Raises:
            ResourceError: memory or descriptors do not suffice, or it was cancelled; `details` has
            the `reason` without the remedy, and `needed_bytes`.
        """
        slab = cls(_create(size_bytes), size_bytes)
        try:
            slab._allocate(room, cancelled)
            fcntl.fcntl(slab.descriptor, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            slab.close()
            raise
        return slab

    def reopen_read_only(self) -> int:
        """Return a new descriptor of the same memory that can only be read; the caller owns it.

        It keeps honest readers honest. A process of the same user can reopen it for writing.
        """
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptor; the memory goes once nobody else holds it. May be called twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _allocate(self, room: Callable[[], Room], cancelled: Callable[[], bool]) -> None:
        for start in range(0, self.size_bytes, CHUNK_BYTES):
            rest, now = self.size_bytes - start, room()
            if cancelled():
                raise ResourceError(reason := "reserving the slab was cancelled", reason=reason)
            if rest + SPARE_BYTES > now.size_bytes:
                raise _too_little(
                    self.size_bytes, max(0, now.size_bytes - SPARE_BYTES + start), now
                )
            try:
                os.posix_fallocate(self.descriptor, start, min(CHUNK_BYTES, rest))
            except OSError as error:
                raise _refused(self.size_bytes, error) from None


def _create(size_bytes: int) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        try:
            descriptor = os.memfd_create("stoker-slab", flags | _MFD_NOEXEC_SEAL)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a kernel before 6.3 does not know the flag
                raise
            descriptor = os.memfd_create("stoker-slab", flags)
    except OSError as error:
        raise _refused(size_bytes, error) from None
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, size_bytes)
    except OSError as error:
        os.close(descriptor)
        raise _refused(size_bytes, error) from None
    return descriptor


def _too_little(needed: int, allowed: int, now: Room) -> ResourceError:
    reason = (
        f"the slab needs {human(needed)}, but only {human(allowed)} may be used ({now.limited_by})"
    )
    return ResourceError(
        f"{reason}; {_REMEDY}", reason=reason, needed_bytes=needed, allowed_bytes=allowed
    )


def _refused(needed: int, error: OSError) -> ResourceError:
    reason = f"the kernel refused a slab of {human(needed)}: {error.strerror}"
    return ResourceError(f"{reason}; {_REMEDY}", reason=reason, needed_bytes=needed)


class Reserver:
    """Reserves and closes slabs in one helper thread, within a limit on their sum.

    Ask with `reserve`, wait for `fileno` to become readable, fetch the outcomes with `collect`. All
    methods are for one thread, the daemon's.
    """

    def __init__(
        self, limit_bytes: int, *, room: Callable[[], Room] = room, limit_name: str = "memory.limit"
    ) -> None:
        self._limit_bytes = limit_bytes
        self._limit_name = limit_name
        self._room = room
        self._granted = 0
        self._slabs: dict[int, Slab] = {}
        self._pending: dict[int, int] = {}
        self._unwanted: set[int] = set()
        self._asked: queue.SimpleQueue[tuple[int, int] | Slab | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, Slab | ResourceError] | int] = (
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
        """Begin to reserve a slab; the outcome comes from `collect`.

        Returns:
            The refusal if the limit on the sum of all slabs forbids it at once, else None.
        """
        left = max(0, self._limit_bytes - self._granted)
        if size_bytes > left:
            return _too_little(
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
        """Return (slab, None or why not) for every reservation that ended since the last call."""
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

    def __getitem__(self, slab: int) -> Slab:
        """Return a reserved slab."""
        return self._slabs[slab]

    def free(self, slab: int) -> None:
        """Give a slab back: one that is held, or one that is still being reserved."""
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
            if isinstance(answer, tuple) and isinstance(answer[1], Slab):
                answer[1].close()
        os.close(self._bell)

    def _note(
        self, slab: int, outcome: Slab | ResourceError
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
            if isinstance(asked, Slab):
                asked.close()
                self._answers.put(asked.size_bytes)
            else:
                slab, size_bytes = asked
                self._answers.put((slab, self._try(slab, size_bytes)))
            os.eventfd_write(self._bell, 1)

    def _try(self, slab: int, size_bytes: int) -> Slab | ResourceError:
        try:
            return Slab.reserve(
                size_bytes,
                room=self._room,
                cancelled=lambda: self._closing.is_set() or slab in self._unwanted,
            )
        except ResourceError as error:
            return error
