"""Walk a tree of files for images, or for their labels.

Order: by path, part by part, by code point, so it is the same on every machine and file system.
Hidden files and folders (a leading dot), folders that systems make, and files without an image
suffix are left out and counted. Links are followed, but never in a cycle.
"""

import os
from collections import Counter
from collections.abc import Set
from pathlib import Path

from stoker.dataset.format.source_item import SourceFile
from stoker.protocol.errors import UsageError

SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "bmp", "gif", "tif", "tiff", "webp"),
        *("ppm", "pgm", "pbm", "pnm"),
        *("avif", "heic", "heif", "jp2", "j2k", "j2c", "jpf", "jpx", "jxl", "exr", "hdr", "dng"),
    )
)
"""Suffixes of images, also of formats that packing rejects: such files are bad samples."""
_OF_SYSTEMS = frozenset(
    ["__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found"]
)
"""Folders that archivers, file servers and file systems make next to the files of users."""
_LOOKED_AT = 10_000


def walk(
    root: Path, under: str, ignored: Counter[str], suffixes: Set[str] = SUFFIXES
) -> list[SourceFile]:
    """Find the image files, or those of other suffixes, in a folder and all folders below it.

    Args:
        root: the source.
        under: the folder to walk, relative to the source; "" or "." for the source itself, whose
            files then have paths without a `./`.
        ignored: counts files that are left out.
        suffixes: of the files to find, in lower case.

    Raises:
        UsageError: a folder cannot be read, or a name is not UTF-8.
    """
    found: list[SourceFile] = []
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [
        ("" if under == "." else under, frozenset())
    ]
    while pending:
        folder, above = pending.pop()
        entries = list_folder(root, folder, ignored)
        status = os.stat(root / folder)
        here = above | {(status.st_dev, status.st_ino)}
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if is_folder(entry):
                inside = entry.stat()
                if (inside.st_dev, inside.st_ino) in here:
                    ignored["links to a folder that they are in"] += 1
                else:
                    pending.append((path, here))
            elif (suffix := Path(entry.name).suffix.lower()) not in suffixes:
                ignored[f"{suffix} files" if suffix else "files without a suffix"] += 1
            else:
                found.append(look_at(entry, path))
    return sorted(found, key=lambda file: file.path.split("/"))


def has_pictures(source: Path) -> bool:
    """Return whether there is an image file among the first files in a folder or below it."""
    looked_at = 0
    for _, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if not _is_left_out(name))
        if any(name[0] != "." and Path(name).suffix.lower() in SUFFIXES for name in names):
            return True
        looked_at += len(names) + len(folders)
        if looked_at > _LOOKED_AT:
            return False
    return False


def is_folder(entry: os.DirEntry[str] | Path) -> bool:
    """Return whether this is a folder, or a link to one; False if its name is too long."""
    try:
        return entry.is_dir()
    except (OSError, ValueError):
        return False


def _is_left_out(name: str) -> bool:
    return name[0] == "." or name in _OF_SYSTEMS


def check_folder(source: Path) -> None:
    """Check that a source is a folder.

    Raises:
        UsageError: it is not.
    """
    if not source.is_dir():
        there = "is a file" if source.exists() else "does not exist"
        raise UsageError(f"{source} {there}; expected a folder of images, or images/ and masks/")


def list_folder(
    root: Path, folder: str = "", ignored: Counter[str] | None = None
) -> list[os.DirEntry[str]]:
    """List a folder without hidden entries and folders of the system, sorted by name.

    Args:
        root: the source.
        folder: relative to the source.
        ignored: counts what is left out.

    Raises:
        UsageError: it cannot be read, or a name in it is not UTF-8.
    """
    try:
        with os.scandir(root / folder) as entries:
            every = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(
            f"cannot read the folder {root / folder}: {error.strerror}; check the path and its "
            "permissions"
        ) from None
    found = [entry for entry in every if not _is_left_out(entry.name)]
    if ignored is not None and len(found) < len(every):
        for entry in every:
            if entry.name in _OF_SYSTEMS:
                ignored[f"folders of the system ({entry.name})"] += 1
            elif entry.name[0] == ".":
                ignored["hidden files or folders"] += 1
    for entry in found:
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(entry.name).decode(errors="backslashreplace")
            raise UsageError(
                f"in {root / folder}: the name {shown} is not UTF-8; rename it"
            ) from None
    return found


def is_file(path: Path) -> bool:
    """Return whether there is a file; False if its name is too long, or has a NUL byte."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def look_at(entry: os.DirEntry[str] | Path, path: str) -> SourceFile:
    """Return a file's size and time under a path; zeros if it cannot be accessed.

    Reading it later gives the reason (for example a broken link), together with all bad files.
    """
    try:
        status = entry.stat()
    except (OSError, ValueError):  # a ValueError if the name has a NUL byte
        return SourceFile(path, 0, 0)
    return SourceFile(path, status.st_size, status.st_mtime_ns)
