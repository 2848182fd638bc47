"""Folders of images with COCO annotations next to them, which an image folder would leave out.

Only names, and the first and last bytes of JSON files, are read here.
"""

import os
from pathlib import Path

from stoker.dataset.sources.common.walk import list_folder

_FOLDERS = ("", "annotations", "Annotations", "labels")
_KEYS = (b'"annotations"', b'"categories"')
_READ_BYTES = 2**16
_MAX_FILES = 100


def how_to_annotate(source: Path) -> str | None:
    """Return what to do about a folder with COCO annotations; None if it has none.

    Raises:
        UsageError: a folder cannot be read, or a name in it is not UTF-8.
    """
    found = [path for folder in _FOLDERS for path in _described(source, folder)]
    if not found:
        return None
    others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return (
        f"{source}: {found[0].relative_to(source)}{others} has COCO annotations, which would be "
        f"left out; to pack them, run `stoker pack {found[0]} DEST`, with --images FOLDER if the "
        "images are not found; to pack images alone, pass --kind folder"
    )


def _described(source: Path, folder: str) -> list[Path]:
    if not (source / folder).is_dir():
        return []
    names = [entry.name for entry in list_folder(source, folder)]
    paths = [source / folder / name for name in names if name.lower().endswith(".json")]
    return [path for path in paths[:_MAX_FILES] if _looks_like_coco(path)]


def _looks_like_coco(path: Path) -> bool:
    """Whether the start or the end of a file names COCO's parts."""
    try:
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            head = file.read(_READ_BYTES)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ_BYTES))
            text = head + file.read(_READ_BYTES)
    except OSError:
        return False
    return b'"images"' in text and any(key in text for key in _KEYS)
