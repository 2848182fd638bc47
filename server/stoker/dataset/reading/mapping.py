"""Read-only maps of files that hold no descriptor.

`mmap.mmap` keeps a duplicate of the descriptor for as long as the map lives, so a thousand files
would be a thousand descriptors per process. Here the descriptor is closed as soon as the file is
mapped. The map lives as long as any view of it: views (memoryviews, arrays) refer to the exporting
object, and its finalizer unmaps. If a file is truncated while it is mapped, reads behind its end
are fatal (SIGBUS): therefore datasets are replaced by renaming, never written in place.
"""

import ctypes
import mmap
import os
import weakref
from pathlib import Path

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_LIBC.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_FAILED = ctypes.c_void_p(-1).value


def map_file(path: Path, size_bytes: int) -> memoryview:
    """Map the first `size_bytes` (at least 1) of a file, read-only.

    Raises:
        OSError: the file cannot be opened or mapped, or is shorter.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        actual = os.fstat(descriptor).st_size
        if actual < size_bytes:
            raise OSError(0, f"expected at least {size_bytes} bytes, got {actual}", str(path))
        address = _LIBC.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    finally:
        os.close(descriptor)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))
    exporter = (ctypes.c_ubyte * size_bytes).from_address(address)
    finalizer = weakref.finalize(exporter, _LIBC.munmap, address, size_bytes)
    finalizer.atexit = False
    return memoryview(exporter).cast("B").toreadonly()


def will_need(view: memoryview) -> None:
    """Ask the kernel to read a part of a map soon, without waiting for it; it may decline."""
    if not len(view):
        return
    address = np.frombuffer(view, np.uint8).ctypes.data
    first = address - address % mmap.PAGESIZE
    _LIBC.madvise(first, address + len(view) - first, mmap.MADV_WILLNEED)
