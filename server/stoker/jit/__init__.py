"""Plain functions as machine code: marked, named, hashed, compiled by numba and kept on disk.

The lowest of the server's packages: everything that computes may import it. It does not know ops
or pipelines, imports nothing of Stoker but `stoker.protocol.errors`, and imports numba only when
something must be compiled. Use `from stoker.jit import kernel, compiled`.
"""

from stoker.jit.compiling import compiled, direct, handwritten, kernels_done
from stoker.jit.diskcache import cache_root, set_cache_root
from stoker.jit.kernels import kernel
from stoker.jit.sources import source_digest

__all__ = [
    "cache_root",
    "compiled",
    "direct",
    "handwritten",
    "kernel",
    "kernels_done",
    "set_cache_root",
    "source_digest",
]
