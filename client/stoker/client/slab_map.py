"""The slab in this process: one map of the daemon's memory file.

The map is made with the system call `mmap`, not with the `mmap` module, for two reasons: it leaves
no descriptor open, and a forked child (where the map is absent, MADV_DONTFORK) must never unmap an
address range that may by then have another use. A writable slab is mapped shared: in-place
operations on a batch are legal and die with the slot. A read-only slab (that of a group) is mapped
privately, so that in-place operations stay within this process; `forget` drops such private pages
when a slot is returned, because they would hide the next batch there.

The map lives as long as the last array in it, even if the loader is closed. Other members of a
group may get the slots of a closed loader; `keep` makes this process's copy of a slot first.
"""

import ctypes
import fcntl
import mmap
import os

import numpy as np

from stoker.protocol.errors import ProtocolError, ResourceError

_F_SEAL_SHRINK = 0x0002
_MAP_NORESERVE = 0x4000
"""A group's slab has room for many members; the unused part needs no memory."""
_MADV_DONTNEED = 4
_MADV_DONTFORK = 10
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class SlabMap:
    """A slab of `slots` slots of `slot_bytes` bytes each, mapped.

    Attributes:
        address: its address in this process.
        size_bytes: slots * slot_bytes.
    """

    def __init__(self, descriptor: int, slots: int, slot_bytes: int, *, writable: bool) -> None:
        """Map the memory of a descriptor; the caller still owns and closes it.

        Raises:
            ProtocolError: the memory is smaller than announced, or may still shrink.
            ResourceError: the system refuses to map it.
        """
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.size_bytes = slots * slot_bytes
        self.writable = writable
        self._pid = os.getpid()
        self.address = 0
        _check_memory(descriptor, self.size_bytes)
        address = _libc.mmap(
            None,
            self.size_bytes,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_SHARED if writable else mmap.MAP_PRIVATE | _MAP_NORESERVE,
            descriptor,
            0,
        )
        if address is None or address == _FAILED:
            reason = os.strerror(ctypes.get_errno())
            raise ResourceError(
                f"this process cannot map the {self.size_bytes} bytes of its batches: {reason};"
                " raise its limit on address space (ulimit -v) or on maps (vm.max_map_count), or"
                " lower batch_size or prefetch",
                needed_bytes=self.size_bytes,
            )
        self.address = address
        _libc.madvise(address, self.size_bytes, _MADV_DONTFORK)

    def forget(self, slot: int) -> None:
        """Drop this process's changes in a slot of a privately mapped slab."""
        if not self.writable:
            _libc.madvise(self.address + slot * self.slot_bytes, self.slot_bytes, _MADV_DONTNEED)

    def keep(self, slot: int) -> None:
        """Copy a slot of a privately mapped slab, in its place: writing to a page copies it."""
        if self.writable:
            return
        address = self.address + slot * self.slot_bytes
        buffer = (ctypes.c_uint8 * self.slot_bytes).from_address(address)
        pages = np.frombuffer(memoryview(buffer).cast("B"), np.uint8)[:: mmap.PAGESIZE]
        np.bitwise_or(pages, 0, out=pages)

    def __del__(
        self, _getpid: object = os.getpid, _munmap: object = _libc.munmap
    ) -> None:  # bound here: at interpreter exit the module's globals may be gone
        if self.address and _getpid() == self._pid:  # type: ignore[operator]
            _munmap(self.address, self.size_bytes)  # type: ignore[operator]


def _check_memory(descriptor: int, size_bytes: int) -> None:
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        seals = 0
    size = os.fstat(descriptor).st_size
    if size_bytes < 1 or size < size_bytes or not seals & _F_SEAL_SHRINK:
        raise ProtocolError(
            f"expected a memory file of at least {size_bytes} bytes, sealed against shrinking; "
            f"got {size} bytes, seals {seals:#x}"
        )
