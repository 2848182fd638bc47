"""Image folder: the class of an image is the sub-folder that contains it, at any depth.

Classes are the sub-folders that contain images, sorted by name, and count from 0. A source without
sub-folders gives images without labels. `--field image=image[uint16]`, `image[int16]` and
`image[float32]` declare images of one channel and more than 8 bits.
"""

from collections import Counter
from pathlib import Path

from stoker.dataset.format import schema
from stoker.dataset.format.source_item import item_of_files
from stoker.dataset.sources.common.class_order import order_classes, remarks_on_order
from stoker.dataset.sources.common.field_notation import DEEP, declare
from stoker.dataset.sources.common.lookalikes import remarks_on_lookalikes
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import check_folder, is_folder, list_folder, walk
from stoker.dataset.sources.formats.clip_folders import look_like_clips
from stoker.dataset.sources.formats.folder_checks import (
    check_kind,
    check_pairs,
    check_splits,
    check_wrapper,
    class_of,
    remarks_on_twins,
)
from stoker.protocol.errors import UsageError

IMAGE = "image"
_KINDS = ("image", *(kind for kind in DEEP if kind.startswith("image")))


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
        check_pairs(source, files)
    nested = [file for file in files if "/" in file.path]
    if not nested:
        items = [item_of_files((file,)) for file in files]
        twins = list(remarks_on_twins(files))
        return SourceScan("folder", source, (image,), items, ignored=ignored, remarks=twins)
    classes = sorted({class_of(file) for file in nested})
    if not request.asked:
        check_splits(source, classes)
        check_kind(source, nested, classes)
        if look_like_clips(files):
            raise UsageError(
                f"{source}: the images in each folder are numbered, so the folders may be clips "
                "and the images their frames; choose one: `--kind clips` packs frames, in order, "
                "for sample_frames, `--kind folder` packs images without an order"
            )
        check_wrapper(source, nested, classes)
    names = order_classes(classes, request.classes)
    numbers = {name: number for number, name in enumerate(names)}
    scan = SourceScan(
        "folder",
        source,
        (image, schema.label(classes=names)),
        [item_of_files((file,), numbers[class_of(file)]) for file in nested],
        bad=[
            (file.path, "it is not in a class folder, but others are; move it into one")
            for file in files
            if "/" not in file.path
        ],
        ignored=ignored,
    )
    if not request.classes:
        scan.remarks += remarks_on_order(names)
        scan.remarks += remarks_on_lookalikes(names)
    empty = [
        entry.name
        for entry in list_folder(source)
        if is_folder(entry) and entry.name not in {*classes, *request.classes}
    ]
    if empty:
        scan.remarks.append(
            f"{len(empty)} folders have no image, so they are not classes, such as {empty[0]}; to "
            "give them numbers, list the classes with --classes FILE"
        )
    scan.remarks += remarks_on_twins(files)
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
