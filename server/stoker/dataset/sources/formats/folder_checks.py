"""Image folders that look like something else; the user then names their kind.

These checks read names alone. They are left out if the user named the kind of the source.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from stoker.dataset.format.source_item import SourceFile
from stoker.dataset.sources.formats.parallel import MASK_WORD, MASKS, SPLITS
from stoker.protocol.errors import UsageError

_PICTURES = re.compile(r"(^|[_-]|jpeg)(images?|imgs?|rgb)($|[_-])", re.IGNORECASE)


def class_of(file: SourceFile) -> str:
    """Return the class of an image: the first folder of its path."""
    return file.path.split("/", 1)[0]


def check_splits(source: Path, classes: list[str]) -> None:
    """Reject folders of which several are named like splits.

    Raises:
        UsageError: several folders are.
    """
    splits = [name for name in classes if name.lower() in SPLITS]
    if len(splits) > 1:
        raise UsageError(
            f"{source} looks like splits ({', '.join(splits)}), not like classes; pack each one "
            f"separately, as in `stoker pack {source / splits[0]} DEST`, or pass --kind folder"
        )


def check_wrapper(source: Path, files: list[SourceFile], classes: list[str]) -> None:
    """Reject a source whose only folder has folders of images, as archives are unpacked.

    Raises:
        UsageError: the source has one such folder.
    """
    folders = [file.path.split("/")[:-1] for file in files]
    first, last = min(folders), max(folders)
    shared = next((n for n, part in enumerate(first) if part != last[n]), len(first))
    if len(classes) == 1 and _PICTURES.search(classes[0]):
        raise UsageError(
            f"{source}: all images are in {classes[0]}/, which would be their class; pack "
            f"{source / classes[0]} if they have none, or pass --kind folder"
        )
    inner = {folder[shared] if len(folder) > shared else "" for folder in folders}
    if len(classes) == 1 and len(inner) > 1 and "" not in inner:
        around, shown = "/".join(first[:shared]), ", ".join(sorted(inner)[:3])
        raise UsageError(
            f"{source}: all images are in {around}/, whose folders may be the classes ({shown}"
            f"{', ...' * (len(inner) > 3)}); pack {source / around}, or pass --kind folder if "
            f"{classes[0]} is the only class"
        )


def check_kind(source: Path, files: list[SourceFile], classes: list[str]) -> None:
    """Reject sub-folders that look like images and their masks instead of classes.

    A name suggests images or masks, or two folders have files of the same names, but of different
    suffixes.

    Raises:
        UsageError: the folders look like that.
    """
    pictures = [name for name in classes if _PICTURES.search(name)]
    masks = [name for name in classes if MASKS.search(name) and name not in pictures]
    if len(classes) < 2 or not (pictures or masks or _are_partners(files)):
        return
    image = pictures[0] if pictures else next((c for c in classes if c not in masks), classes[0])
    kinds = [f"--field {image}=image"]
    kinds += [f"--field {c}={'mask' if c in masks else 'image'}" for c in classes if c != image]
    raise UsageError(
        f"{source}: the folders {', '.join(classes)} may be classes, or images and masks that "
        "belong together by name; choose one: `--kind folder` packs each folder as a class, "
        f"`--kind parallel {' '.join(kinds)}` packs files of the same name as one sample"
    )


def check_pairs(source: Path, files: list[SourceFile]) -> None:
    """Reject images and masks of one folder, which differ by a word in their names, or by a suffix.

    Raises:
        UsageError: a file may be the mask of another.
    """
    twins = [paths for paths in _by_stem(files).values() if len(paths) > 1]
    if files and sum(map(len, twins)) == len(files):
        raise UsageError(
            f"{source}: each image has another of the same name ({' and '.join(twins[0][:2])}), "
            "which may be its mask or a copy, and each file would be a sample by itself; move the "
            "masks into a folder of their own, as in images/ and masks/, or pass --kind folder if "
            "all are images"
        )
    stems = {str(PurePath(file.path).with_suffix("")) for file in files}
    for file in files:
        path = PurePath(file.path)
        name = MASK_WORD.sub("", path.stem)
        if name in ("", path.stem):
            continue
        partners = (one for one in _image_names(name) if str(path.with_name(one)) in stems)
        if (partner := next(partners, None)) is not None:
            raise UsageError(
                f"{source}: {file.path} may be the mask of {path.with_name(partner)}.*, and each "
                "file would be a sample by itself; move the masks into a folder of their own, as "
                f"in images/{partner}.* and masks/{partner}.*, or pass --kind folder if they are "
                "images"
            )


def _image_names(name: str) -> Iterator[str]:
    """Yield the names that the image of a mask may have."""
    yield name
    yield from (f"{word}{mark}{name}" for word in ("img", "image", "im") for mark in "_-")
    yield from (f"{name}{mark}{word}" for word in ("img", "image", "im") for mark in "_-")


def _are_partners(files: list[SourceFile]) -> bool:
    """Return whether folders have files of the same names, but each folder has another suffix."""
    stems: dict[str, set[str]] = {}
    suffixes: dict[str, set[str]] = {}
    for file in files:
        folder, path = file.path.split("/", 1)
        stems.setdefault(folder, set()).add(str(Path(path).with_suffix("")))
        suffixes.setdefault(folder, set()).add(Path(path).suffix.lower())
    found = [frozenset(some) for some in suffixes.values()]
    apart = len(frozenset().union(*found)) == sum(map(len, found))
    return apart and bool(set.intersection(*stems.values()))


def remarks_on_twins(files: list[SourceFile]) -> Iterator[str]:
    """Yield a line about images of one name that have different suffixes, if there are any."""
    twins = [paths for paths in _by_stem(files).values() if len(paths) > 1]
    if twins:
        yield (
            f"{len(twins)} names are those of several images, such as {' and '.join(twins[0][:2])}"
            "; each file is a sample by itself"
        )


def _by_stem(files: list[SourceFile]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(file.path[: -len(PurePath(file.path).suffix)], []).append(file.path)
    return found
