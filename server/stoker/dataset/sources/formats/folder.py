"""Image folder: the class of an image is the sub-folder that contains it, at any depth.

Classes are the sub-folders that contain images, sorted by name, and count from 0. A source without
sub-folders gives images without labels. `--field image=image[uint16]` and `image[float32]` declare
images of one channel and more than 8 bits.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePath

from stoker.dataset.format import schema
from stoker.dataset.format.item import SourceFile, item_of_files
from stoker.dataset.sources.common.classes import order_classes, remarks_on_order
from stoker.dataset.sources.common.declare import DEEP, declare
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import check_folder, walk
from stoker.dataset.sources.formats.clips import look_like_clips
from stoker.dataset.sources.formats.parallel import MASKS
from stoker.protocol.errors import UsageError

_PICTURES = re.compile(r"(^|[_-]|jpeg)(images?|imgs?|rgb)($|[_-])", re.IGNORECASE)
_MASK_WORD = re.compile(
    r"(?i)[_.-](masks?|seg|segm|segmentation|gt|groundtruth|labels?|labelids|annotation|annot|depth)$"
    r"|^(masks?|seg|segm|segmentation|gt|labels?|annotation|annot|depth)[_.-]"
)
IMAGE = "image"
_KINDS = ("image", *(kind for kind in DEEP if kind.startswith("image")))
_SPLITS = frozenset(
    ["train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval"]
)


def scan_folder(source: Path, request: Request) -> SourceScan:
    """Scan an image folder.

    Args:
        source: the folder.
        request: unless the user named this kind, a folder that looks like splits is rejected.

    Raises:
        UsageError: it has no images, or looks like a folder of splits; or another field than
            `image` is declared, or as something else.
    """
    check_folder(source)
    image = _image(source, request)
    ignored: Counter[str] = Counter()
    files = walk(source, "", ignored)
    if not files:
        raise UsageError(
            f"{source} has no image (looked for files with the suffixes of JPEG, PNG, BMP, GIF, "
            "TIFF, WebP and PNM); check the path"
        )
    if not request.asked:
        _check_pairs(source, files)
    nested = [file for file in files if "/" in file.path]
    if not nested:
        items = [item_of_files((file,)) for file in files]
        return SourceScan("folder", source, (image,), items, ignored=ignored)
    classes = sorted({_class(file) for file in nested})
    if not request.asked and len(classes) > 1 and {name.lower() for name in classes} <= _SPLITS:
        raise UsageError(
            f"{source} looks like splits ({', '.join(classes)}), not like classes; pack each one "
            f"separately, as in `stoker pack {source / classes[0]} DEST`, or pass --kind folder"
        )
    if not request.asked:
        _check_kind(source, nested, classes)
        if look_like_clips(files):
            raise UsageError(
                f"{source}: the images in each folder are numbered, so the folders may be clips "
                "and the images their frames; choose one: `--kind clips` packs frames, in order, "
                "for sample_frames, `--kind folder` packs images without an order"
            )
    names = order_classes(classes, request.classes)
    numbers = {name: number for number, name in enumerate(names)}
    scan = SourceScan(
        "folder",
        source,
        (image, schema.label(classes=names)),
        [item_of_files((file,), numbers[_class(file)]) for file in nested],
        bad=[
            (file.path, "it is not in a class folder, but others are; move it into one")
            for file in files
            if "/" not in file.path
        ],
        ignored=ignored,
    )
    if not request.classes:
        scan.remarks += remarks_on_order(names)
    return scan


def _image(source: Path, request: Request) -> schema.Field:
    """Return the field of the images, which may be declared with more than 8 bits."""
    for name, kind in request.fields.items():
        if name != IMAGE or kind not in _KINDS:
            raise UsageError(
                f"--field {name}={kind} does not apply to {source}, a source of the kind folder; "
                f"expected {' or '.join(f'{IMAGE}={one}' for one in _KINDS)}, or another --kind, "
                "such as parallel for images and masks of the same names"
            )
    return declare(IMAGE, request.fields.get(IMAGE, "image"), IMAGE)


def _check_kind(source: Path, files: list[SourceFile], classes: list[str]) -> None:
    """Reject sub-folders that look like images and their masks instead of classes.

    They do if a name suggests images or masks, or if two folders have files of the same names, but
    of different suffixes.
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


def _check_pairs(source: Path, files: list[SourceFile]) -> None:
    """Reject images and masks of one folder, told apart by a word in their names."""
    stems = {str(PurePath(file.path).with_suffix("")) for file in files}
    for file in files:
        path = PurePath(file.path)
        name = _MASK_WORD.sub("", path.stem)
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
    """Whether folders have files of the same names, but each folder has another suffix."""
    stems: dict[str, set[str]] = {}
    suffixes: dict[str, set[str]] = {}
    for file in files:
        folder, path = file.path.split("/", 1)
        stems.setdefault(folder, set()).add(str(Path(path).with_suffix("")))
        suffixes.setdefault(folder, set()).add(Path(path).suffix.lower())
    found = [frozenset(some) for some in suffixes.values()]
    apart = len(frozenset().union(*found)) == sum(map(len, found))
    return apart and bool(set.intersection(*stems.values()))


def _class(file: SourceFile) -> str:
    return file.path.split("/", 1)[0]
