"""numba's dispatcher and its cache of functions, whose files only the user can change.

`StoredDispatcher` compiles as numba does; `stoker.jit.dispatchers` derives from it the kinds that
compile faster. The cache's files are pickles, so each is opened by `stoker.jit.private`, and ends
with a digest of its content (`stoker.jit.sealed`): a damaged file is compiled again, never run.
Importing this module imports numba.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from numba.core import caching
from numba.core import compiler as untyped_compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from stoker.jit.private import open_folder
from stoker.jit.sealed import check_seal, sealing

_base_dispatcher: Any = CPUDispatcher
_compiler: Any = untyped_compiler
_compiler_lock: Any = global_compiler_lock


class _OwnFolder(caching.UserProvidedCacheLocator):
    """Files are in the kernel's own folder, never next to the source, not even on a full disk."""

    @classmethod
    def get_suitable_cache_subpath(cls, _py_file: str) -> str:
        """Return a name that does not depend on the source's folder: installations share code."""
        return "code"

    def get_source_stamp(self) -> Any:
        """Return numba's digest of the source; nothing instead of its time, before numba 0.68.

        The name of the folder covers the content.
        """
        stamp: Any = super().get_source_stamp()  # type: ignore[no-untyped-call]
        return stamp if isinstance(stamp, str) else None


class Entries(caching.CompileResultCacheImpl):
    """Writes and reads the code of one signature."""

    _locator_classes: Any = [_OwnFolder]  # noqa: RUF012  (numba's own name)

    def reduce(self, cres: Any) -> Any:
        """Return what is stored: numba's, without the listing of the source with its types."""
        return super().reduce(cres._replace(type_annotation=""))  # type: ignore[no-untyped-call]


for _name in ("_load_index", "_load_data", "_save_index", "_open_for_write"):
    if not hasattr(caching.IndexDataCacheFile, _name):  # then files would be read unchecked
        raise ImportError(f"numba.core.caching.IndexDataCacheFile has no method {_name}")


class _Files(caching.IndexDataCacheFile):
    """numba's files of one kernel: read and written by name in a folder that is checked each time.

    The last bytes of each file are a digest of the others.
    """

    def __init__(self, files: Any) -> None:
        self.__dict__.update(files.__dict__)

    def _load_index(self) -> Any:
        with contextlib.suppress(FileNotFoundError), self._read(self._index_name) as path:
            self._index_path = path
            return super()._load_index()  # type: ignore[no-untyped-call]
        return {}

    def _load_data(self, name: str) -> Any:
        with self._read(name) as path:
            return super()._load_data(path)  # type: ignore[no-untyped-call]

    def _save_index(self, overloads: Any) -> None:
        self._index_path = self._index_name
        super()._save_index(overloads)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def _read(self, name: str) -> Iterator[str]:
        with open_folder(Path(self._cache_path)) as folder, folder.reading(name) as path:
            check_seal(path, name)
            yield path

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
        name = os.path.basename(filepath)
        with (
            open_folder(Path(self._cache_path)) as folder,
            folder.replacing(name) as file,
            sealing(file, name) as sealed,
        ):
            yield sealed


class CheckedCache(caching.FunctionCache):
    """numba's cache of a function, with checked files."""

    _impl_class: Any = Entries

    def __init__(self, fn: Any) -> None:
        super().__init__(fn)  # type: ignore[no-untyped-call]
        self._cache_file = _Files(self._cache_file)


class StoredDispatcher(_base_dispatcher):  # type: ignore[misc]
    """numba's dispatcher; its maker wraps its cache in a `stoker.jit.diskcache.SharedCache`.

    Attributes:
        compiler_class: which compiles.
        cache_class: which reads and writes code.
        more_options: of numba, besides those given.
        around: a context manager in which code is loaded or compiled.
    """

    compiler_class: Any = _compiler.Compiler
    cache_class: Any = CheckedCache
    more_options: dict[str, Any] = {}  # noqa: RUF012
    around: Callable[[], AbstractContextManager[Any]] = staticmethod(contextlib.nullcontext)

    def __init__(self, fn: Any, options: dict[str, Any], *, stored: bool = True) -> None:
        """Take a function and numba's options; `stored`: whether its code is kept on disk."""
        options = {**options, **self.more_options, "nopython": True}
        super().__init__(fn, targetoptions=options, pipeline_class=self.compiler_class)
        if stored:
            self._cache = self.cache_class(fn)

    def compile(self, sig: Any) -> Any:
        """Load or compile code, then release the cache's lock, also after an error."""
        made = self.overloads.get(sig) if type(sig) is tuple else None
        if made is not None:
            return made.entry_point
        with _compiler_lock, self.around():
            try:
                return super().compile(sig)
            finally:
                self._cache.release()
