"""Compiled kernels on disk, in a numba cache that several processes may share.

One folder per kernel: `<cache root>/<name>-<digest>`. numba's own cache checks only the file of the
function itself, and two processes that save different signatures at the same moment can leave an
index that names the wrong machine code. So here the digest covers everything the code depends on
(see `stoker.jit.sources`), and a process that compiles holds a lock on the folder until it has
saved. Reading needs no lock: files are replaced as a whole. A damaged entry counts as absent and is
rebuilt.

numba stores its entries as pickles, so all folders and files are opened and checked by
`stoker.jit.private`: a root that others can write to is refused, and so is each file that others
could have written. numba is imported inside functions only.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import importlib
import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from stoker.jit import activity
from stoker.jit.cacheroot import default_cache_root, is_fallback, open_root, users_root
from stoker.jit.compiler_tables import fill_tables
from stoker.jit.kernels import is_ours
from stoker.jit.numba_version import SUPPORTED, is_supported
from stoker.jit.private import Folder, lock_file, open_folder
from stoker.jit.sources import loaded_digest, source_digest
from stoker.protocol.errors import BuildError, ResourceError, refusal_kind

_log = logging.getLogger(__name__)
_state = threading.Lock()
_chosen: list[Path] = []
FORMAT: Final = 7
"""Format of the entries; it is part of the names of folders, so formats are never confused."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
LOCK_S: Final = 120.0
"""Seconds that a process waits for another one that compiles the same kernel."""
POLL_S: Final = 0.02
INSIDE: Final = "inside"
"""Subfolder of a kernel's folder, for the form that its callers copy."""


def cache_root() -> Path:
    """Return the folder that holds the compiled kernels.

    It is the folder given to `set_cache_root`, else `default_cache_root`.
    """
    return _chosen[-1] if _chosen else default_cache_root(os.environ)


def set_cache_root(path: str | os.PathLike[str]) -> None:
    """Keep the kernels that this process compiles from now on in another folder.

    Kernels that are already compiled stay in their folder.
    """
    with _state:
        _chosen[:] = [Path(path).absolute()]


@functools.cache
def kernel_digest(fn: FunctionType) -> str:
    """Return the name of a kernel's machine code: sources, loaded code, versions and processor.

    Computed once per function and process, as its code is loaded once too.
    """
    parts = f"{source_digest(fn)} {loaded_digest(fn)} {fn.__qualname__} {toolchain()}"
    parts += "" if is_ours(fn) else " division raises"
    return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()


def kernel_folder(fn: FunctionType, digest: str, *, inside: bool = False) -> Path | None:
    """Make and return the cache folder of a kernel; None if the disk is full or it is not safe.

    A folder in the temporary directory starts as a copy of the one in the user's cache, which is
    read-only in that case: kernels compiled ahead (`stoker warm`) are not compiled again.

    Args:
        fn: the kernel.
        digest: the result of `kernel_digest`.
        inside: for the form that its callers copy.

    Raises:
        ResourceError: the cache root is not writable, or others can write to it.
    """
    root = cache_root()
    path = root / f"{fn.__name__}-{digest}" / (INSIDE if inside else "")
    try:
        os.close(open_root(root).fd)
        with _opened(root, path) as folder:
            if folder is None:
                return None
            if is_fallback(root):
                _copy_once(root, folder)
        return path
    except OSError as error:
        if error.errno in _FULL:
            _note_unstored(f"kernel cache {root}: {error.strerror}")
            return None
        raise refusal_kind(error)(
            f"kernel cache {root}: cannot write there ({error.strerror}): choose a writable folder"
            " with stoker.jit.set_cache_root or XDG_CACHE_HOME",
            path=str(root),
        ) from None


def check_cache_root() -> None:
    """Make the cache root if it is missing, and check that it can be used.

    Raises:
        ResourceError: it cannot be made, or others can write to it.
    """
    root = cache_root()
    try:
        os.close(open_root(root).fd)
    except OSError as error:
        raise refusal_kind(error)(
            f"kernel cache {root}: cannot be used ({error.strerror}): choose another folder with"
            " daemon.cache_root or XDG_CACHE_HOME",
            path=str(root),
        ) from None


def is_stored(folder: Path | None) -> bool:
    """Return whether a kernel's folder has code for any signature."""
    return folder is not None and any(folder.glob("*/*.nbi"))


def dispatcher(
    fn: FunctionType, folder: Path | None, before_compiling: Callable[[], None], *, inside: bool
) -> Any:
    """Return the numba dispatcher of a function, with its code kept in a folder, if it has one.

    No fastmath, no global interpreter lock while it runs. Stoker's own kernels divide as NumPy
    does; user kernels raise on division by zero, as in plain Python.

    Args:
        fn: the function.
        folder: the result of `kernel_folder`.
        before_compiling: called before code that is not in the folder is compiled.
        inside: whether only kernels call it: then no machine code is made.

    Raises:
        BuildError: as `dispatcher_class`.
    """
    options = {
        "nogil": True,
        "error_model": "numpy" if is_ours(fn) else "python",
        "fastmath": False,
        "no_cfunc_wrapper": True,  # unused, and a tenth of the compile time
    }
    kind = dispatcher_class("Callee" if inside else "KernelDispatcher")
    return stored_dispatcher(
        lambda stored: kind(fn, options, stored=stored), folder, before_compiling
    )


def dispatcher_class(name: str) -> Any:
    """Return a class of `stoker.jit.dispatchers`; with an unsupported numba, their base class.

    Raises:
        BuildError: that numba lacks a part that even the base class needs.
    """
    if is_supported():
        return getattr(importlib.import_module("stoker.jit.dispatchers"), name)
    try:
        return importlib.import_module("stoker.jit.stored").StoredDispatcher
    except (ImportError, AttributeError) as error:
        version = importlib.import_module("numba").__version__
        raise BuildError(
            f"numba {version} cannot compile kernels of this Stoker ({error}): install {SUPPORTED}"
        ) from None


def stored_dispatcher(
    make: Callable[[bool], Any], folder: Path | None, before_compiling: Callable[[], None]
) -> Any:
    """Return a new dispatcher of numba's, with its code kept in a folder, if it has one.

    Args:
        make: makes it; gets whether its code is kept.
        folder: the result of `kernel_folder`.
        before_compiling: called before code that is not in the folder is compiled.
    """
    made = None if folder is None else _stored(make, folder)
    if made is None:
        made = make(False)
        made._cache = SharedCache(None, None, before_compiling)
    else:
        made._cache = SharedCache(made._cache, folder, before_compiling)
    return made


def _stored(make: Callable[[bool], Any], folder: Path) -> Any:
    """Return a dispatcher with numba's cache in a folder; None if the folder cannot be written."""
    config = importlib.import_module("numba").core.config
    with _state:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            return make(True)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            _note_unstored(f"kernel cache {cache_root()}: {folder} cannot be written")
            return None
        finally:
            config.CACHE_DIR = before


def is_compiled(fast: Any, types: tuple[Any, ...]) -> bool:
    """Return whether a dispatcher has code for argument types, or finds it in its cache."""
    return types in fast.overloads or types in fast._cache.signatures(fast)


def load_stored(fast: Any, most: int) -> int:
    """Load compiled forms of a dispatcher from its cache; return how many were loaded.

    Args:
        fast: what `dispatcher` returned; for any other object nothing is loaded.
        most: load no more than these.
    """
    cache = getattr(fast, "_cache", None)
    if not isinstance(cache, SharedCache):
        return 0
    wanted = [given for given in cache.signatures(fast) if given not in fast.overloads][:most]
    for given in wanted:
        fast.compile(given)
    return len(wanted)


@contextlib.contextmanager
def _opened(root: Path, path: Path) -> Iterator[Folder | None]:
    """Yield the open folder of a kernel; None, with a note, if others can write to it."""
    try:
        folder = open_folder(path, create=True)
    except ResourceError as error:  # the root is safe, so this folder is older than that
        _note_unstored(error.message.partition(": machine code")[0])
        yield None
        return
    with folder:
        yield folder


def _copy_once(root: Path, folder: Folder) -> None:
    """Copy a kernel's files from the user's cache root, if that has them and is safe."""
    other = users_root(os.environ)
    if other is None or is_stored(folder.path):
        return
    try:
        os.close(open_root(other, create=False).fd)
        source = open_folder(other / folder.path.relative_to(root))
    except (OSError, ResourceError):  # missing, or not to be entered, or not safe
        return
    with source:
        lock = _lock_of(folder.path)
        if lock is None:
            return
        try:
            if not is_stored(folder.path):
                with contextlib.suppress(FileNotFoundError, PermissionError, ResourceError):
                    _copy_tree(source, folder)
        finally:
            os.close(lock)


def _copy_tree(source: Folder, into: Folder) -> None:
    """Copy numba's files, which are in folders of their own."""
    for name in source.names():
        if name in ("lock", INSIDE):
            continue
        path = source.path / name
        if path.is_dir() and not path.is_symlink():
            with open_folder(path) as below, open_folder(into.path / name, create=True) as made:
                _copy_tree(below, made)
        else:
            with os.fdopen(source.open(name), "rb") as old, into.replacing(name) as new:
                shutil.copyfileobj(old, new)


class SharedCache:
    """A numba function cache made safe for several processes and for damaged files.

    It replaces the dispatcher's own cache object and forwards everything else to it. From a miss to
    the end of `compile` it holds the folder's lock, so two processes do not compile one kernel:
    the second one waits, then finds the code. If the first one holds the lock for too long (it may
    be stopped), the second one compiles too and stores nothing. A kernel waits only for the locks
    of its callees, and none calls itself, so two processes never wait for each other. All methods
    run under numba's compiler lock.
    """

    def __init__(
        self, inner: Any, folder: Path | None, before_compiling: Callable[[], None]
    ) -> None:
        """Keep the code in a folder with numba's cache; without a folder, nowhere."""
        self._inner = inner
        self._folder = folder
        self._before_compiling = before_compiling
        self._held: int | None = None
        self._busy = False
        self._may_save = True

    def __getattr__(self, name: str) -> Any:
        """Forward every other attribute to numba's cache."""
        return getattr(self._inner, name)

    def signatures(self, fast: Any) -> list[Any]:
        """Return the signatures with stored code for this processor and numba."""
        if self._folder is None:
            return []
        codegen = fast.targetctx.codegen()
        index = self._inner._cache_file._load_index()
        return [key[0] for key in index if key == self._inner._index_key(key[0], codegen)]

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the stored code of a signature, or None if there is no intact code.

        After None, the folder's lock is held until `release`.
        """
        if self._folder is None:
            self._begin()
            self._before_compiling()
            return None
        with contextlib.suppress(Exception):  # a damaged entry fails at the second look too
            found = self._inner.load_overload(signature, target)
            if found is not None:
                return found
        self._hold()
        try:
            found = self._inner.load_overload(signature, target)
        except Exception as error:
            found = None
            _log.warning("damaged kernel cache %s is rebuilt: %r", self._folder, error)
            with contextlib.suppress(OSError, ResourceError):
                self._inner.flush()
        if found is None:
            self._before_compiling()
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store code; on a full disk the next start is slower, nothing else."""
        if self._folder is None or not self._may_save:
            return
        try:
            self._inner.save_overload(signature, result)
        except OSError as error:
            _note_unstored(f"kernel cache {cache_root()}: {error.strerror or error}")
        except ResourceError as error:
            _note_unstored(error.message.partition(": machine code")[0])

    def release(self) -> None:
        """Release the folder's lock, if it is held."""
        if self._busy:
            self._busy = False
            activity.end_compiling()
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _begin(self) -> None:
        if not self._busy:
            self._busy = True
            activity.begin_compiling()
            fill_tables()

    def _hold(self) -> None:
        """Wait for the folder's lock; go on without it if it cannot be made or got in time."""
        self._begin()
        if self._held is None and self._folder is not None:
            with contextlib.suppress(OSError, ResourceError):  # a full disk, or not safe
                self._held = _lock_of(self._folder)
                self._may_save = self._held is not None


def _note_unstored(reason: str) -> None:
    """Note that kernels are not stored, with one line for the process."""
    if not activity.unstored() and not activity.is_heard():
        _log.warning("%s: kernels are compiled and not stored", reason)
    activity.note_unstored(reason)


def _lock_of(folder: Path) -> int | None:
    """Wait for the folder's lock; return a descriptor. Closing it, or exiting, releases it.

    None if another process holds it for longer than `LOCK_S`: it may be stopped.
    """
    with open_folder(folder) as opened:
        descriptor = lock_file(opened, "lock")
    until = time.monotonic() + LOCK_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(POLL_S)
                    continue
                _log.warning("%s is locked for %g s: compiled and not stored", folder, LOCK_S)
                os.close(descriptor)
                return None
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise


@functools.cache
def toolchain() -> str:
    """Return what names the compiler: versions, replacements, processor, format of the entries."""
    numba = importlib.import_module("numba")
    llvmlite = importlib.import_module("llvmlite")
    numpy = importlib.import_module("numpy")
    llvm = importlib.import_module("llvmlite.binding")
    config = numba.core.config
    cpu = config.CPU_NAME or llvm.get_host_cpu_name()
    features = config.CPU_FEATURES or llvm.get_host_cpu_features().flatten()
    versions = (numba.__version__, llvmlite.__version__, numpy.__version__, sys.version)
    alone = "" if is_supported() else " numba alone"
    return f"{FORMAT} {versions} {cpu} {features} {config.OPT}{alone}"
