"""Sources read in place: find the index of a source, and make it if it is missing or out of date.

An **index** is a small dataset whose images, masks, arrays and bytes stay in the source's files
(`format.index_cells`). It is in the cache folder, under a name derived from the source's path;
nothing is ever written next to the source. It is out of date as soon as a file of the source is
added, removed, or has another size or modification time; it is then made again with the original
options. One process makes it, others wait.

Runs in builders and commands; workers open the finished indexes.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import UNSET

from stoker.dataset.format.manifest import NAME, WORK, Manifest, Source, read_manifest
from stoker.dataset.packing.build import is_data_file
from stoker.dataset.packing.index_lock import take_lock
from stoker.dataset.packing.pack import Options, PackReport, Progress, pack
from stoker.dataset.sources.kinds import AUTO, KINDS, kind_of
from stoker.jit import cache_root
from stoker.jit.activity import progressed
from stoker.jit.cacheroot import open_root
from stoker.jit.private import Folder, lock_file
from stoker.protocol.errors import (
    DatasetError,
    SetupError,
    UsageError,
    VersionError,
    refusal_kind,
)


def index_folder(source: str | os.PathLike[str]) -> Path:
    """Return the folder of a source's index, which may not exist."""
    path = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(source))), "")
    name = hashlib.blake2b(os.fsencode(path + os.path.basename(os.fspath(source).rstrip("/"))))
    return cache_root() / "indexes" / name.hexdigest()[:32]


def can_be_in_place(source: str | os.PathLike[str]) -> bool:
    """Return whether a path or a pattern looks like a source that can be read in place."""
    kind = kind_of(os.fspath(source))
    return kind is not None and KINDS[kind].files is not None


def current_index(source: str | os.PathLike[str]) -> Path:
    """Return the folder of a source's index; make the index if it is missing or out of date.

    Raises:
        UsageError: the source cannot be read in place.
        DatasetError: samples are bad (all are listed).
        ResourceError: the disk is full, or another process that makes it makes no progress.
    """
    folder = index_folder(source)
    if not (_is_there(folder) and _is_current(folder)):
        with _lock(folder):
            if not _is_current(folder):
                try:
                    _make(source, folder, _options(folder), lambda _: progressed())
                except DatasetError as error:
                    if "--skip-bad" not in error.message:
                        raise
                    raise DatasetError(
                        f"{error.message.rpartition(chr(10))[0]}\nrepair or remove them; or leave "
                        f"them out: run `stoker index {source} --skip-bad` once, then open the "
                        "source again",
                        **error.details,
                    ) from None
    return folder


def make_index(
    source: str | os.PathLike[str],
    options: Options,
    progress: Callable[[Progress], None] | None = None,
) -> PackReport:
    """Make the index of a source, even if it exists.

    Raises:
        UsageError: the source cannot be read in place.
        DatasetError: samples are bad (all are listed).
        ResourceError: the disk is full.
    """
    folder = index_folder(source)
    with _lock(folder):
        return _make(source, folder, options, progress)


def _make(
    source: str | os.PathLike[str],
    folder: Path,
    options: Options,
    progress: Callable[[Progress], None] | None,
) -> PackReport:
    return pack(source, folder, replace(options, in_place=True, overwrite=True), progress)


def _is_current(folder: Path) -> bool:
    """Return whether there is an index, and its source still has the same files."""
    manifest = _manifest(folder)
    if manifest is None or manifest.source is UNSET:
        return False
    source = manifest.source
    kind = KINDS.get(source.kind)
    if kind is None or kind.files is None:
        return False
    with contextlib.suppress(UsageError):
        root, files = kind.files(Path(source.name))
        return str(root.resolve()) == source.root and tuple(files) == source.files
    return False


def _options(folder: Path) -> Options:
    """Return the options of the existing index; with one process, because builders have one."""
    manifest = _manifest(folder)
    if manifest is None or manifest.source is UNSET:
        return Options(kind=AUTO, workers=1)
    source: Source = manifest.source
    return Options(kind=source.kind, fields=source.fields, skip_bad=source.skip_bad, workers=1)


def _manifest(folder: Path) -> Manifest | None:
    if not (folder / NAME).exists():
        return None
    try:
        return read_manifest(folder)
    except (DatasetError, VersionError):  # damaged, or of a newer Stoker: make it again
        return None


def _is_there(folder: Path) -> bool:
    """Return whether the folder exists; checked, and nothing is made."""
    try:
        os.close(open_root(cache_root(), folder.parent.name, folder.name, create=False).fd)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the right to make an index; waits while another process makes it.

    Raises:
        ResourceError: the cache folder is not writable, others can write to it, something that is
            not an index is in the way, or the other process makes no progress.
    """
    root, parent = cache_root(), folder.parent.name
    try:
        with open_root(root, parent) as indexes:
            descriptor = lock_file(indexes, f"{folder.name}.lock")
    except OSError as error:
        raise refusal_kind(error)(
            f"cannot write an index to {folder.parent}: {error.strerror}; choose another cache "
            "folder with [daemon] cache_root or XDG_CACHE_HOME",
            path=str(folder.parent),
        ) from None
    try:
        take_lock(descriptor, Path(f"{folder}.lock"), folder / WORK, progressed)
        with open_root(root, parent, folder.name) as opened:
            _check_content(opened)
        yield
    finally:
        os.close(descriptor)


def _check_content(folder: Folder) -> None:
    """Check that a folder is an index, or empty: making an index replaces what is there.

    Raises:
        SetupError: there is something else.
    """
    others = [name for name in sorted(folder.names()) if not _is_of_index(name)]
    manifest = _manifest(folder.path)
    if manifest is not None and manifest.source is UNSET:
        others = [NAME]
    if others:
        raise SetupError(
            f"{folder.path}: expected an index or nothing, got {others[0]}"
            f"{' of a packed dataset' if others == [NAME] else ''}; move the folder away, or choose"
            " another cache folder with [daemon] cache_root or XDG_CACHE_HOME",
            path=str(folder.path),
        )


def _is_of_index(name: str) -> bool:
    return name in (NAME, WORK) or name.startswith(f".{NAME}.") or is_data_file(name)
