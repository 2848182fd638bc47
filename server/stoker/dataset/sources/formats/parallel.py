"""Parallel folders: images/, masks/ and other folders of images that belong together by name.

Partners have the same path below their folder, except for the suffix: images/a/1.jpg and
masks/a/1.png. The field is named like the folder, without a plural s. A folder is of masks if its
name suggests it, otherwise of images; `kinds` overrides that. If the files of images/ are in
sub-folders, these are their classes. Without images/, the user names the folder of images; the only
image is then the field `image`, and the only mask `mask`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker.dataset.format import schema
from stoker.dataset.format.fields import PICTURES
from stoker.dataset.format.optional_fields import how_to_declare, kind_of
from stoker.dataset.format.source_item import Given, Item, SourceFile, WholeFile
from stoker.dataset.sources.common.class_order import order_classes
from stoker.dataset.sources.common.field_notation import DEEP, declare, field_name, plain_kind
from stoker.dataset.sources.common.lookalikes import look_of, remarks_on_lookalikes
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import check_folder, is_folder, list_folder, walk
from stoker.protocol.errors import UsageError

FIRST = ("images", "image")
MASKS = re.compile(
    r"(^|[_-])(masks?|labels?|annotations?|segmentations?|gt)($|[_-])|^segmentation(class|object)",
    re.IGNORECASE,
)
"""Names of folders of masks."""
_IMAGE_WORD = re.compile(r"(?i)^(img|image|im)[_-]|[_-](img|image|im)$")
MASK_WORD = re.compile(
    r"(?i)[_.-](masks?|seg|segm|segmentation|gt|groundtruth|labels?|labelids|annotation|annot|depth)$"
    r"|^(masks?|seg|segm|segmentation|gt|labels?|annotation|annot|depth)[_.-]"
)
"""Words in the names of masks, before or after those of their images."""
SPLITS = frozenset(
    ["train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval"]
)
"""Names of folders that are splits, in lower case."""


def has_images_folder(source: Path) -> bool:
    """Return whether this looks like parallel folders."""
    return any((source / name).is_dir() for name in FIRST)


def scan_parallel(source: Path, request: Request) -> SourceScan:
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
        if not is_folder(entry):
            ignored["files next to the folders"] += 1
            continue
        files = walk(source, entry.name, ignored)
        if files:
            trees[entry.name] = files
        else:
            ignored[f"{entry.name}/ (no image in it)"] += 1
    first = next((name for name in FIRST if name in trees), None)
    plain = {name: plain_kind(kind) for name, kind in kinds.items()}
    first = first or next((name for name in trees if plain.get(name) == "image"), None)
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
    scan = SourceScan("parallel", source, fields, [], ignored=ignored)
    scan.items = _match([(name, trees[name]) for name in order], scan, request.classes)
    if not request.asked:
        _check_splits(source, scan.fields[-1].classes or ())
    return scan


def _check_splits(source: Path, classes: Sequence[str]) -> None:
    splits = [name for name in classes if name.lower() in SPLITS]
    if len(splits) > 1:
        raise UsageError(
            f"{source}: the folders {', '.join(splits)} look like splits, not like classes; "
            "`--kind parallel` packs all of them with these labels, of which `stoker split DEST "
            "--by label` makes splits"
        )


def _fields(folders: list[str], asked: Mapping[str, str]) -> tuple[schema.Field, ...]:
    names, kinds = [], []
    for folder in folders:
        short = folder if folder.endswith("ss") else folder.removesuffix("s") or folder
        names.append(field_name(short))
        masks = folder not in FIRST and MASKS.search(folder)
        kinds.append(asked.get(folder) or ("mask" if masks else "image"))
        if plain_kind(kinds[-1]) not in (*PICTURES, *DEEP):
            expected = ", ".join((*PICTURES, *DEEP))
            raise UsageError(
                f"--field {folder}={kinds[-1]}: expected one of {expected}, with ,fill=NUMBER if "
                "files may be missing"
            )
    if folders[0] not in FIRST:
        names = _renamed(names, kinds)
    fields: dict[str, schema.Field] = {}
    for folder, name, kind in zip(folders, names, kinds, strict=True):
        if name in fields:
            raise UsageError(
                f"two folders give the field {name!r}; rename one, for example {folder}/"
            )
        fields[name] = declare(name, kind, folder)
    return tuple(fields.values())


def _renamed(names: list[str], kinds: list[str]) -> list[str]:
    """Name the only image `image` and the only mask `mask`; for folders of other names."""
    plain = [plain_kind(kind).partition("[")[0] for kind in kinds]
    return [
        kind if plain.count(kind) == 1 else name for name, kind in zip(names, plain, strict=True)
    ]


def _match(
    trees: list[tuple[str, list[SourceFile]]], scan: SourceScan, given: tuple[str, ...]
) -> list[Item]:
    """Return items of files with the same stem; files without partners become bad."""
    by_stem = [_stems(folder, files, scan) for folder, files in trees]
    folders = [folder for folder, _ in trees]
    stems = sorted(set().union(*by_stem), key=lambda stem: stem.split("/"))
    classes: tuple[str, ...] = ()
    looks: list[dict[str, str]] = []
    whole: list[tuple[str, list[SourceFile | None]]] = []
    for stem in stems:
        files = [tree.get(stem) for tree in by_stem]
        lacking = [
            (folder, field)
            for folder, field, file in zip(folders, scan.fields, files, strict=True)
            if file is None and not field.optional
        ]
        if not lacking:
            whole.append((stem, files))
            continue
        there = next(file for file in files if file is not None)
        missing = ", ".join(f"{folder}/{stem}.*" for folder, _ in lacking)
        remedy = ", ".join(how_to_declare(folder, kind_of(field)) for folder, field in lacking)
        if not looks:
            looks = [{_core(stem): file.path for stem, file in tree.items()} for tree in by_stem]
        absent = [tree for tree, file in zip(looks, files, strict=True) if file is None]
        close = next(filter(None, (tree.get(_core(stem)) for tree in absent)), "")
        hint = (
            f"{close!a} may be meant, whose name differs in a word, case, blanks or Unicode form; "
            "rename one"
            if close
            else f"if files may be missing, declare a fill: {remedy}"
        )
        scan.bad.append((there.path, f"its partner is missing: expected {missing}; {hint}"))
    if any("/" in stem for stem, _ in whole):
        found = {stem.split("/", 1)[0] for stem, _ in whole if "/" in stem}
        classes = order_classes(found, given)
        scan.remarks += () if given else remarks_on_lookalikes(classes)
        scan.fields = (*scan.fields, schema.label(classes=classes))
    numbers = {name: number for number, name in enumerate(classes)}
    items: list[Item] = []
    for stem, partners in whole:
        if classes and "/" not in stem:
            reason = "it is not in a class folder, but others are; move it into one"
            scan.bad.append((_first(partners).path, reason))
        else:
            label = (Given(numbers[stem.split("/", 1)[0]]),) if classes else ()
            items.append(_item(partners, label))
    return items


def _core(stem: str) -> str:
    """Return what the names of an image and its mask have in common, if anything."""
    folder, _, name = stem.rpartition("/")
    return look_of(f"{folder}/{_IMAGE_WORD.sub('', MASK_WORD.sub('', name))}")


def _first(partners: list[SourceFile | None]) -> SourceFile:
    return next(file for file in partners if file is not None)


def _item(partners: list[SourceFile | None], label: tuple[Given, ...]) -> Item:
    """Return the item of partners, of which optional ones may be None."""
    size_bytes = sum(file.size_bytes for file in partners if file is not None)
    places = (Given(None) if file is None else WholeFile(file) for file in partners)
    return Item(_first(partners).path, size_bytes, (*places, *label))


def _stems(folder: str, files: list[SourceFile], scan: SourceScan) -> dict[str, SourceFile]:
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
