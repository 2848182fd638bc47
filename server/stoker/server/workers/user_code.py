"""The files of users that a process has imported, with their digests at that moment.

A builder is a new process for each build, so it imports a file as it is now. A worker lives for
many streams and imports a file once; after an edit it would run the old code for a stream that was
built from the new one. So the result of a build has the digests of the files, and a worker compares
its own with them when it opens the stream. If they differ, it forgets all modules of users and
imports them again. Streams that are open keep the functions that they began with.

A file counts if it is neither part of Python, nor of Stoker, nor installed into site-packages. So
do the data files that such modules read (`user_data_files`): a worker compares them after each
chunk too, because a function may read one when it is called. Digests are taken right after the
import. Python itself takes a file for unchanged if size and modification time, in whole seconds,
are those of its compiled form.

Runs in builders, replayers and workers, on their one thread.
"""

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

from stoker.jit.named import forget_names
from stoker.protocol.errors import BuildError
from stoker.server.workers.user_data_files import UserDataFiles, digest_of, is_own_file, still_has

Sources = tuple[tuple[str, str], ...]
"""Path of a file and digest of its content, for each file, sorted."""


class UserCode:
    """The modules of users, and their data files, that this process has read since it was made."""

    def __init__(self) -> None:
        """Begin before the first import of such a module."""
        self._last = next(reversed(sys.modules))
        self._count = len(sys.modules)
        self._others: set[str] = set()
        self._files: dict[str, tuple[str, str]] = {}
        self._data = UserDataFiles()

    def has_grown(self) -> bool:
        """Return whether modules were imported, or data files opened, since the last note."""
        return len(sys.modules) != self._count or self._data.has_grown()

    def note(self) -> Sources:
        """Note the files of new modules and new data files, and return all of them."""
        if len(sys.modules) != self._count:
            for name, module in self._imported():
                if name not in self._others and name not in self._files:
                    self._note(name, module)
            self._count = len(sys.modules)
        return tuple(sorted({**dict(self._files.values()), **self._data.note()}.items()))

    def differing(self, sources: Sources) -> str | None:
        """Return a file that this process imported with another content than a build did."""
        built = dict(sources)
        for path, digest in self.note():
            if built.get(path, digest) != digest:
                return path
        return None

    def require(self, sources: Sources) -> None:
        """Refuse a stream whose files have been edited since it was built.

        Raises:
            BuildError: names a file that was edited.
        """
        path = self.differing(sources)
        if path is not None:
            raise BuildError(
                f"{path} was edited after this stream was opened, and a process that started later "
                "reads it as it is now, so the rows of the stream would change: open the stream "
                "again with a new Loader, which uses the file as it is now, or undo the edit",
                file=path,
            )

    def forget(self) -> None:
        """Remove the modules, so that the next use imports them again."""
        for name in self._files:
            _remove(name)
        self._files.clear()
        self._data.forget()
        self._count = 0
        forget_names()
        importlib.invalidate_caches()

    def _imported(self) -> list[tuple[str, ModuleType]]:
        """Return the modules that were imported after the last one of the beginning.

        Reading the others would copy the pages of the template's memory that they are in.
        """
        later = itertools.takewhile(
            lambda item: item[0] != self._last, reversed(sys.modules.items())
        )
        return list(later)

    def _note(self, name: str, module: ModuleType) -> None:
        path = getattr(module, "__file__", None)
        if not _is_own(name, path):
            self._others.add(name)
            return
        assert path is not None
        self._files[name] = path, digest_of(Path(path))


def unchanged(sources: Sources) -> bool:
    """Return whether the files still have the content of these digests."""
    return all(still_has(path, digest) for path, digest in sources)


def _is_own(name: str, path: str | None) -> bool:
    """Return whether a module is a file of a user."""
    if path is None or not path.endswith(".py") or name.partition(".")[0] in ("stoker", "__main__"):
        return False
    return is_own_file(path)


def _remove(name: str) -> None:
    """Remove a module, also as an attribute of its package, which `from PACKAGE import` reads."""
    module = sys.modules.pop(name, None)
    parent, _, child = name.rpartition(".")
    package = sys.modules.get(parent)
    if package is not None and vars(package).get(child) is module:
        delattr(package, child)
