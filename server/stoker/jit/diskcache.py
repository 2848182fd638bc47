"""Where compiled kernels lie on disk, and a numba cache that several processes may share.

One folder a kernel: `<cache root>/<name>-<digest>`. numba alone stamps only the file of the
function itself, and two processes that save different signatures at the same moment can leave an
index that names the wrong machine code. So here the digest covers everything the code depends on
(see `stoker.jit.sources`), and a process that compiles holds a lock on the folder until it has
saved. Reading needs none: files are replaced whole. A damaged entry counts as absent and is
rebuilt.

numba keeps its entries as pickles, so the cache root must be the user's own: a root that belongs to
another user, or that anybody may write to, is refused. numba is imported inside functions only.
"""

import contextlib
import fcntl
import functools
import hashlib
import importlib
import logging
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from stoker.jit.cacheroot import default_cache_root, fallback_root, users_root
from stoker.jit.kernels import is_ours
from stoker.jit.sources import loaded_digest, source_digest
from stoker.protocol.errors import ResourceError

_log = logging.getLogger(__name__)
_state = threading.Lock()
_chosen: list[Path] = []
FORMAT: Final = 2
"""Of the entries: another number names other folders, so entries of both are never confused."""
INSIDE: Final = "inside"
"""Folder, in that of a kernel, of the form that its callers copy."""


def cache_root() -> Path:
    """Return the folder that holds the compiled kernels.

    It is what `set_cache_root` was given, else `default_cache_root`.
    """
    return _chosen[-1] if _chosen else default_cache_root(os.environ)


def set_cache_root(path: str | os.PathLike[str]) -> None:
    """Keep the kernels that this process compiles from now on under another folder.

    Kernels that are compiled already keep the folder they have.
    """
    with _state:
        _chosen[:] = [Path(path).absolute()]


@functools.cache
def kernel_digest(fn: FunctionType) -> str:
    """Return the name of a kernel's machine code: sources, loaded code, versions and processor.

    Taken once for each function of a process: its code was loaded once, too.
    """
    parts = f"{source_digest(fn)} {loaded_digest(fn)} {fn.__qualname__} {_toolchain()}"
    parts += "" if is_ours(fn) else " division raises"
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


def kernel_folder(fn: FunctionType, digest: str, *, inside: bool = False) -> Path:
    """Make and return the cache folder of a kernel.

    In the folder of temporary files it begins as a copy of what lies in the user's cache, which can
    only be read then: kernels that were compiled ahead (`stoker warm`) are not compiled again.

    Args:
        fn: the kernel.
        digest: of `kernel_digest`.
        inside: for the form that its callers copy.

    Raises:
        ResourceError: the cache root cannot be written, or is not the user's own.
    """
    root = cache_root()
    folder = root / f"{fn.__name__}-{digest}" / (INSIDE if inside else "")
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(root)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root == fallback_root():
            lock = _lock_of(folder)
            try:
                _copy_kernel(users_root(os.environ), root, folder)
            finally:
                os.close(lock)
        return folder
    except OSError as error:
        raise ResourceError(
            f"kernel cache {root}: cannot write there ({error.strerror}): choose a folder that can"
            " be written, with stoker.jit.set_cache_root or XDG_CACHE_HOME",
            path=str(root),
        ) from None


def is_stored(folder: Path) -> bool:
    """Whether a kernel's folder has code for any types."""
    return any(folder.glob("*/*.nbi"))


def dispatcher(
    fn: FunctionType, folder: Path, before_compiling: Callable[[], None], *, inside: bool
) -> Any:
    """Return the numba dispatcher of a function, its code kept in a folder.

    No fastmath, no global interpreter lock while it runs. Our own kernels divide as NumPy does;
    those of a user's raise where they divide by zero, as they do in plain Python.

    Args:
        fn: the function.
        folder: of `kernel_folder`.
        before_compiling: called whenever code is not in the folder, before it is made.
        inside: whether only kernels call it: then there is no machine code.
    """
    config = importlib.import_module("numba").core.config
    dispatchers = importlib.import_module("stoker.jit.dispatchers")
    options = {
        "nogil": True,
        "error_model": "numpy" if is_ours(fn) else "python",
        "fastmath": False,
        "no_cfunc_wrapper": True,  # nobody calls it, and it is a tenth of compiling
    }
    with _state:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            made = (dispatchers.Callee if inside else dispatchers.Kernel)(fn, options)
        finally:
            config.CACHE_DIR = before
    made._cache = SharedCache(made._cache, folder, before_compiling)
    return made


def load_stored(fast: Any, most: int) -> int:
    """Load compiled forms of a dispatcher that are in its cache; return how many were loaded.

    Args:
        fast: what `dispatcher` returned; of anything else there is nothing to load.
        most: load no more than these.
    """
    cache = getattr(fast, "_cache", None)
    if not isinstance(cache, SharedCache):
        return 0
    wanted = [given for given in cache.signatures(fast) if given not in fast.overloads][:most]
    for given in wanted:
        fast.compile(given)
    return len(wanted)


def _copy_kernel(other: Path | None, root: Path, folder: Path) -> None:
    """Copy a kernel's files from another cache root, if it has them and they are not there yet."""
    if other is None:
        return
    place = other / folder.relative_to(root)
    if not place.is_dir() or is_stored(folder):
        return
    _check_owner(other)
    shutil.copytree(
        place, folder, ignore=shutil.ignore_patterns("lock", INSIDE), dirs_exist_ok=True
    )


class SharedCache:
    """A numba function cache made safe for several processes and for damaged files.

    It stands in for the dispatcher's own cache object and passes everything else on to it. From a
    miss to the end of `compile` it holds the folder's lock, so two processes never compile the same
    kernel: the second one waits, then finds the code. Kernels wait for the locks of their callees
    only, and none calls itself, so no two processes wait for each other. All methods are called
    under numba's lock of its compiler.
    """

    def __init__(self, inner: Any, folder: Path, before_compiling: Callable[[], None]) -> None:
        self._inner = inner
        self._folder = folder
        self._before_compiling = before_compiling
        self._held: int | None = None

    def __getattr__(self, name: str) -> Any:
        """Pass every other attribute on to numba's cache."""
        return getattr(self._inner, name)

    def signatures(self, fast: Any) -> list[Any]:
        """Return the signatures whose code is stored, for this processor and numba."""
        codegen = fast.targetctx.codegen()
        index = self._inner._cache_file._load_index()
        return [key[0] for key in index if key == self._inner._index_key(key[0], codegen)]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the stored code of a signature, or None if there is none that is whole.

        After None the folder's lock is held until `release`.
        """
        with contextlib.suppress(Exception):  # what is damaged is damaged at the second look too
            found = self._inner.load_overload(signature, target)
            if found is not None:
                return found
        self._hold()
        try:
            found = self._inner.load_overload(signature, target)
        except Exception as error:
            found = None
            _log.warning("damaged kernel cache %s is rebuilt: %r", self._folder, error)
            with contextlib.suppress(OSError):
                self._inner.flush()
        if found is None:
            self._before_compiling()
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store code; a disk that is full costs time at the next start, nothing else."""
        try:
            self._inner.save_overload(signature, result)
        except OSError as error:
            _log.warning("kernel cache %s was not written: %s", self._folder, error)

    def release(self) -> None:
        """Give the folder's lock back, if it is held."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _hold(self) -> None:
        """Wait for the folder's lock; where there is none, as on a full disk, go on without it."""
        if self._held is None:
            with contextlib.suppress(OSError):
                self._held = _lock_of(self._folder)


def _lock_of(folder: Path) -> int:
    """Wait for the folder's lock; return a descriptor. Closing it, or dying, gives it back."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_owner(root: Path) -> None:
    # Among temporary files anybody may put a link in the way; lstat says that all may write it.
    status = root.lstat() if root == fallback_root() else root.stat()
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & stat.S_IWOTH:
        raise ResourceError(
            f"kernel cache {root}: expected a folder of user {os.geteuid()} that others cannot"
            f" write, got owner {status.st_uid}, mode {stat.filemode(status.st_mode)}: machine code"
            " is loaded from it; choose another with stoker.jit.set_cache_root",
            path=str(root),
        )


@functools.cache
def _toolchain() -> str:
    numba = importlib.import_module("numba")
    llvmlite = importlib.import_module("llvmlite")
    numpy = importlib.import_module("numpy")
    llvm = importlib.import_module("llvmlite.binding")
    config = numba.core.config
    cpu = config.CPU_NAME or llvm.get_host_cpu_name()
    features = config.CPU_FEATURES or llvm.get_host_cpu_features().flatten()
    versions = (numba.__version__, llvmlite.__version__, numpy.__version__, sys.version)
    return f"{FORMAT} {versions} {cpu} {features} {config.OPT}"
