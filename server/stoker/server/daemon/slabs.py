"""Slabs: memory that workers write and clients map, reserved before it is used.

A slab is a memfd. It has no name, so nothing is left behind when processes die, and a container's
small /dev/shm does not matter. It lives as long as any process holds its descriptor or a map of it.
It is allocated (fallocate, which touches every page, on the memory node of the calling thread) and
then sealed against shrinking, growing and further sealing, so that a peer can neither truncate it
while it is written nor make it grow. Its mode is 0600.

A slab may be a sparse file, of which only parts have memory: the slots that a session needs later,
and in the slab of a group those for further members. `fill` allocates a part, `punch` frees one. So
it stays one file with one map in each process.

Sizes are bytes. `reserver` runs all this outside the daemon's loop.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from stoker.protocol.errors import ResourceError
from stoker.server.settings.cgroup import Room, room

SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
CHUNK_BYTES: Final = 64 * 2**20
SPARE_BYTES: Final = 64 * 2**20
_MFD_NOEXEC_SEAL: Final = 0x8
_PUNCH: Final = 0x1 | 0x2
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE."""
Part = tuple[int, int]
"""(start, size) in bytes."""
_REMEDY = (
    "lower batch_size, prefetch or the size of the outputs, end other clients, or give the daemon"
    " more memory"
)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def human(size_bytes: int) -> str:
    """Return a size in the unit that suits it: `human(3 * 2**30) == "3.0 GiB"`."""
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


class SlabMemory:
    """One memfd of fixed size, fully allocated and sealed.

    Attributes:
        size_bytes: its size in bytes, with the parts that have no memory.
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
        capacity_bytes: int = 0,
        needed_bytes: int = 0,
        room: Callable[[], Room] = room,
        canceled: Callable[[], bool] = lambda: False,
    ) -> "SlabMemory":
        """Create a slab and allocate its first `size_bytes`, `CHUNK_BYTES` at a time.

        Before each chunk the free room is checked again: other processes allocate too, and
        allocating more than there is would wake the kernel's out-of-memory killer instead of
        failing.

        Args:
            size_bytes: at least 1.
            capacity_bytes: the size of the file; 0: `size_bytes`.
            needed_bytes: refuse if there is no room for these; 0: `size_bytes`.
            room: returns how much memory may still be used.
            canceled: called before each chunk; True ends the work.

        Raises:
            ResourceError: not enough memory or descriptors, or it was canceled; `details` has
            the `reason` without the remedy, and `needed_bytes`.
        """
        capacity_bytes = capacity_bytes or size_bytes
        slab = cls(_create(capacity_bytes), capacity_bytes)
        try:
            slab._allocate([(0, size_bytes)], needed_bytes or size_bytes, room, canceled)
            fcntl.fcntl(slab.descriptor, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            slab.close()
            raise
        return slab

    def fill(
        self,
        parts: Sequence[Part],
        *,
        room: Callable[[], Room] = room,
        canceled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Allocate parts that have no memory: all of them, or none.

        Raises:
            ResourceError: as in `reserve`.
        """
        try:
            self._allocate(parts, sum(size_bytes for _, size_bytes in parts), room, canceled)
        except BaseException:
            self.punch(parts)
            raise

    def punch(self, parts: Sequence[Part]) -> None:
        """Free the memory of parts; they read as zeros from then on."""
        for start, size_bytes in parts:
            code = _libc.fallocate(self.descriptor, _PUNCH, start, size_bytes)
            if code:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def reopen_read_only(self) -> int:
        """Return a new read-only descriptor of the same memory; the caller owns it.

        This only prevents accidental writes: a process of the same user can reopen it for writing.
        """
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptor; the memory is freed once no process holds it. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _allocate(
        self,
        parts: Sequence[Part],
        wanted: int,
        room: Callable[[], Room],
        canceled: Callable[[], bool],
    ) -> None:
        done = 0
        for start, size_bytes in _chunks(parts):
            rest, now = wanted - done, room()
            if canceled():
                raise ResourceError(reason := "reserving the slab was canceled", reason=reason)
            if rest + SPARE_BYTES > now.size_bytes:
                raise too_little(wanted, max(0, now.size_bytes - SPARE_BYTES + done), now)
            try:
                os.posix_fallocate(self.descriptor, start, size_bytes)
            except OSError as error:
                raise _refused(wanted, error) from None
            done += size_bytes


def parts_of(slots: Iterable[int], slot_bytes: int) -> list[Part]:
    """Return the parts of a slab that slots have; neighbors are one part."""
    parts: list[Part] = []
    for slot in sorted(slots):
        start = slot * slot_bytes
        if parts and sum(parts[-1]) == start:
            parts[-1] = parts[-1][0], parts[-1][1] + slot_bytes
        else:
            parts.append((start, slot_bytes))
    return parts


def _chunks(parts: Iterable[Part]) -> Iterator[Part]:
    for start, size_bytes in parts:
        for first in range(start, start + size_bytes, CHUNK_BYTES):
            yield first, min(CHUNK_BYTES, start + size_bytes - first)


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


def too_little(needed: int, allowed: int, now: Room) -> ResourceError:
    """Return the error for a slab of `needed` bytes if only `allowed` bytes may be used."""
    wanted, left = human(needed), human(allowed)
    if wanted == left:
        wanted, left = f"{needed} B", f"{allowed} B"
    reason = f"the slab needs {wanted}, but only {left} may be used ({now.limited_by})"
    return ResourceError(
        f"{reason}; {_REMEDY}", reason=reason, needed_bytes=needed, allowed_bytes=allowed
    )


def _refused(needed: int, error: OSError) -> ResourceError:
    reason = f"the kernel refused a slab of {human(needed)}: {error.strerror}"
    return ResourceError(f"{reason}; {_REMEDY}", reason=reason, needed_bytes=needed)
