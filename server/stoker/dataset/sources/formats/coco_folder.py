"""COCO files and folders of images: finding one from the other.

An image folder would leave annotations next to it out, and annotations do not say where their
images are. Only names, and the first and last bytes of JSON files, are read here.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from stoker.dataset.sources.common.walk import is_file, is_folder, list_folder
from stoker.protocol.errors import UsageError
from stoker.protocol.files.absent import why_absent

_FOLDERS = ("", "annotations", "Annotations", "labels")
_KEYS = (b'"annotations"', b'"categories"')
_READ_BYTES = 2**16
_MAX_FILES = 100
_LOOKED_FOR = 100
"""Number of images that are looked for, to find their folder."""


def how_to_annotate(source: Path) -> str | None:
    """Return the advice for a folder with COCO annotations; None for a folder without them.

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
    """Return whether the start or the end of a file names COCO's parts."""
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


def find_images(path: Path, names: Sequence[str], given: Path | None) -> Path:
    """Return the folder of the images of a COCO file.

    Args:
        path: the file.
        names: the names of its images.
        given: the folder that the user named; None: of the places where COCO's own archives put
            it, the place with the most images is taken.

    Raises:
        UsageError: there is no such folder, or none of the images that are looked for is in it.
    """
    split = path.stem.rpartition("_")[2]
    above = path.parent.parent
    places = [path.parent, above / split, above / "images" / split, path.parent / "images",
              above / "images", path.parent / split, above]  # fmt: skip
    if given is not None:
        if not is_folder(given):
            raise UsageError(f"--images: there is no folder {given}{why_absent(str(given))}")
        places = [given]
    some = names[:: max(1, len(names) // _LOOKED_FOR)]
    counts = {place: sum(is_file(place / name) for name in some) for place in places}
    best = max(places, key=lambda place: counts[place])
    if counts[best]:
        return best
    if given is not None:  # a part of a download may have only others
        some = names
        if any(is_file(given / name) for name in names):
            return given
    what = names[0] if len(names) == 1 else f"none of {len(some)} images, such as {names[0]},"
    looked = ", ".join(str(place) for place in counts)
    raise UsageError(
        f"{path}: {what} is in {'none of ' * (len(names) == 1)}{looked}; name the folder of the "
        f"images: --images FOLDER{why_absent(names[0])}"
    )
