"""Parallel folders: images/, masks/ and other folders of images that belong together by name.

Partners have the same path below their folder, except for the suffix: images/a/1.jpg and
masks/a/1.png. The field is named like the folder, without a plural s. A folder is of masks if its
name suggests it, otherwise of images; `kinds` overrides that. If the files of images/ are in
sub-folders, these are their classes. Without images/, the user names the folder of images; the only
image is then the field `image`, and the only mask `mask`.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from stoker.dataset.format import schema
from stoker.dataset.format.fields import PICTURES
from stoker.dataset.format.item import Item, SourceFile, item_of_files
from stoker.dataset.sources.common.classes import order_classes
from stoker.dataset.sources.common.scan import Request, Scan
from stoker.dataset.sources.common.walk import check_folder, list_folder, walk
from stoker.protocol.errors import UsageError

FIRST = ("images", "image")
MASKS = re.compile(
    r"(^|[_-])(masks?|labels?|annotations?|segmentations?|gt)($|[_-])|^segmentation(class|object)",
    re.IGNORECASE,
)
"""Names of folders of masks."""


def has_images_folder(source: Path) -> bool:
    """Whether this looks like parallel folders."""
    return any((source / name).is_dir() for name in FIRST)


def scan_parallel(source: Path, request: Request) -> Scan:
    """Scan parallel folders.

    Args:
        source: the folder that holds them.
        request: its fields are folder name -> "image" or "mask", to override the name.

    Raises:
        UsageError: there is no images/, a named folder does not exist, or two give one field.
    """
    check_folder(source)
    kinds = {name.rstrip("/"): kind for name, kind in request.fields.items()}
    ignored: Counter[str] = Counter()
    trees: dict[str, list[SourceFile]] = {}
    for entry in list_folder(source):
        if not entry.is_dir():
            ignored["files next to the folders"] += 1
            continue
        files = walk(source, entry.name, ignored)
        if files:
            trees[entry.name] = files
        else:
            ignored[f"{entry.name}/ (no image in it)"] += 1
    first = next((name for name in FIRST if name in trees), None)
    first = first or next((name for name in trees if kinds.get(name) == "image"), None)
    if first is None:
        raise UsageError(
            f"{source}: expected a folder images/ with images, or --field FOLDER=image, "
            "got "
            f"{', '.join(f'{name}/' for name in trees) or 'no folder of images'}"
        )
    for name in kinds.keys() - trees.keys():
        raise UsageError(f"{source} has no folder {name}/ with images; got --field {name}=...")
    order = [first, *(name for name in trees if name != first)]
    fields = _fields(order, kinds)
    if first not in FIRST:
        fields = _renamed(fields)
    scan = Scan("parallel", source, fields, [], ignored=ignored)
    scan.items = _match([(name, trees[name]) for name in order], scan, request.classes)
    return scan


def _fields(folders: list[str], kinds: Mapping[str, str]) -> tuple[schema.Field, ...]:
    fields: dict[str, schema.Field] = {}
    for folder in folders:
        short = folder if folder.endswith("ss") else folder.removesuffix("s") or folder
        name = re.sub(r"\W", "_", short, flags=re.ASCII)
        name = f"_{name}" if name[0].isdigit() else name
        kind = kinds.get(folder) or (
            "mask" if folder not in FIRST and MASKS.search(folder) else "image"
        )
        if kind not in PICTURES:
            raise UsageError(f"--field {folder}={kind}: expected image or mask")
        if name in fields:
            raise UsageError(
                f"two folders give the field {name!r}; rename one, for example {folder}/"
            )
        fields[name] = schema.image(name) if kind == "image" else schema.mask(name)
    return tuple(fields.values())


def _renamed(fields: tuple[schema.Field, ...]) -> tuple[schema.Field, ...]:
    """Name the only image `image` and the only mask `mask`; for folders of other names."""
    count = Counter(field.kind for field in fields)
    return tuple(
        (schema.image if field.kind == "image" else schema.mask)(
            field.kind if count[field.kind] == 1 else field.name
        )
        for field in fields
    )


def _match(
    trees: list[tuple[str, list[SourceFile]]], scan: Scan, given: tuple[str, ...]
) -> list[Item]:
    """Return items of files with the same stem; files without partners become bad."""
    by_stem = [_stems(folder, files, scan) for folder, files in trees]
    folders = [folder for folder, _ in trees]
    stems = sorted(set().union(*by_stem), key=lambda stem: stem.split("/"))
    classes: tuple[str, ...] = ()
    whole: list[tuple[str, tuple[SourceFile, ...]]] = []
    for stem in stems:
        files = [tree.get(stem) for tree in by_stem]
        if None not in files:
            whole.append((stem, cast(tuple[SourceFile, ...], tuple(files))))
            continue
        there = next(file for file in files if file is not None)
        missing = ", ".join(
            f"{folder}/{stem}.*" for folder, file in zip(folders, files, strict=True) if not file
        )
        scan.bad.append((there.path, f"its partner is missing: expected {missing}"))
    if any("/" in stem for stem, _ in whole):
        found = {stem.split("/", 1)[0] for stem, _ in whole if "/" in stem}
        classes = order_classes(found, given)
        scan.fields = (*scan.fields, schema.label(classes=classes))
    numbers = {name: number for number, name in enumerate(classes)}
    items: list[Item] = []
    for stem, partners in whole:
        if classes and "/" not in stem:
            reason = "it is not in a class folder, but others are; move it into one"
            scan.bad.append((partners[0].path, reason))
        else:
            label = (numbers[stem.split("/", 1)[0]],) if classes else ()
            items.append(item_of_files(partners, *label))
    return items


def _stems(folder: str, files: list[SourceFile], scan: Scan) -> dict[str, SourceFile]:
    found: dict[str, SourceFile] = {}
    for file in files:
        stem = file.path[len(folder) + 1 :]
        stem = stem[: len(stem) - len(Path(stem).suffix)]
        if stem in found:
            scan.bad.append(
                (file.path, f"{found[stem].path} has the same name; remove one of them")
            )
        else:
            found[stem] = file
    return found
