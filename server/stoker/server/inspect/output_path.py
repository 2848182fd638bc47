"""Checks an output path before the long work starts."""

import os
from collections.abc import Sequence
from pathlib import Path

from stoker.protocol.errors import UsageError


def check_out(flag: str, path: Path, endings: Sequence[str] = ()) -> None:
    """Refuse a file that cannot be written.

    Args:
        flag: of the command that names the file.
        path: of the file.
        endings: those that the file may have, with their dots; empty: any.

    Raises:
        UsageError: it has another ending, is a folder, or its folder is missing or not writable.
    """
    if endings and path.suffix.lower() not in endings:
        raise UsageError(
            f"{flag} {path}: expected a file name with one of the endings {', '.join(endings)}"
        )
    folder = path.parent
    if path.is_dir():
        reason = "it is a folder; expected the name of a file"
    elif not folder.is_dir():
        reason = f"there is no folder {folder}; make it, or choose another one"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        reason = "it cannot be written; choose another folder or name"
    else:
        return
    raise UsageError(f"{flag} {path}: {reason}")


def check_out_folder(flag: str, path: Path) -> None:
    """Refuse a folder that cannot be made or written to; it is not made yet.

    Raises:
        UsageError: it, or the folder above it that exists, is a file or not writable.
    """
    there = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not there.is_dir():
        raise UsageError(f"{flag} {path}: {there} is a file; expected a folder")
    if not os.access(there, os.W_OK):
        raise UsageError(f"{flag} {path}: {there} cannot be written; choose another folder")
