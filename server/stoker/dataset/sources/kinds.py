"""The kinds of sources, and how they are recognized.

A kind is recognized by names and first bytes alone. The first kind in this table that recognizes a
source is used, so special kinds come before general ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.dataset.format.manifest import NAME as MANIFEST
from stoker.dataset.format.source_item import SourceFile
from stoker.dataset.sources.common.field_notation import IGNORE, declare, field_name
from stoker.dataset.sources.common.pickles import how_to_convert
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import has_pictures
from stoker.dataset.sources.formats.clip_folders import scan_clips
from stoker.dataset.sources.formats.coco import is_coco, scan_coco
from stoker.dataset.sources.formats.coco_folder import how_to_annotate
from stoker.dataset.sources.formats.ffcv import is_beton, scan_beton
from stoker.dataset.sources.formats.huggingface import (
    huggingface_files,
    is_huggingface,
    scan_huggingface,
)
from stoker.dataset.sources.formats.image_folder import scan_folder
from stoker.dataset.sources.formats.numpy_arrays import (
    is_array_kind,
    is_arrays,
    no_array_kind,
    scan_arrays,
)
from stoker.dataset.sources.formats.parallel import has_images_folder, scan_parallel
from stoker.dataset.sources.formats.python_objects import is_object, scan_objects
from stoker.dataset.sources.formats.table import is_table, scan_table
from stoker.dataset.sources.formats.unpacked_folder import is_unpacked, scan_unpacked
from stoker.dataset.sources.formats.webdataset import (
    is_webdataset,
    scan_webdataset,
    webdataset_files,
)
from stoker.dataset.sources.formats.yolo import scan_yolo
from stoker.dataset.sources.formats.yolo_layout import is_yolo
from stoker.protocol.datasets import is_pattern
from stoker.protocol.errors import UsageError
from stoker.protocol.files.absent import why_absent

AUTO, ARRAYS = "auto", "arrays"
_FLAGS = {
    "fields": "field",
    "images": "images",
    "classes": "classes",
    "split": "split",
    "masks": "masks",
    "clip": "clip",
    "all_keypoints": "all-keypoints",
}
"""Attribute of a request -> the flag that sets it."""


@dataclass(frozen=True)
class SourceKind:
    """A kind of source.

    Attributes:
        knows: whether an existing path, or a pattern, looks like this kind.
        scan: the scan function.
        takes: the options of a request that it supports; others are rejected.
        files: lists its files and the folder that they are relative to, if it can be read in place.
        alone: whether images in its folder mean that the folder may have another kind.
    """

    knows: Callable[[Path], bool]
    scan: Callable[[Path, Request], SourceScan]
    takes: tuple[str, ...] = ()
    files: Callable[[Path], tuple[Path, list[SourceFile]]] | None = None
    alone: bool = False


_MAY_LACK = ("parallel", "table", "python", "webdataset", "huggingface", "unpacked")
"""Kinds of sources whose samples may lack an optional field."""

KINDS: Mapping[str, SourceKind] = {
    "unpacked": SourceKind(is_unpacked, scan_unpacked),
    "coco": SourceKind(is_coco, scan_coco, ("images", "masks", "clip", "all_keypoints")),
    "ffcv": SourceKind(is_beton, scan_beton, ("fields",)),
    "webdataset": SourceKind(is_webdataset, scan_webdataset, ("fields",), webdataset_files, True),
    "huggingface": SourceKind(
        is_huggingface, scan_huggingface, ("fields",), huggingface_files, True
    ),
    "table": SourceKind(is_table, scan_table, ("fields", "images", "classes")),
    ARRAYS: SourceKind(is_arrays, scan_arrays, ("fields", "split"), alone=True),
    "yolo": SourceKind(is_yolo, scan_yolo, ("split", "masks", "clip", "all_keypoints")),
    "parallel": SourceKind(has_images_folder, scan_parallel, ("fields", "classes")),
    "folder": SourceKind(Path.is_dir, scan_folder, ("fields", "classes")),
    "clips": SourceKind(lambda path: False, scan_clips, ("classes",)),
    "python": SourceKind(is_object, scan_objects, ("fields",)),
}


def scan_source(source: str, kind: str, request: Request) -> SourceScan:
    """Scan a source of a given kind, or recognize its kind first.

    Raises:
        UsageError: there is no such kind or source, its kind is not recognized, or an option does
            not apply to its kind.
    """
    if kind != AUTO:
        if kind not in KINDS:
            raise unknown_kind(kind)
        return _scan(kind, Path(source), request)
    found = kind_of(source)
    if found == "folder" and _is_packed(Path(source)):
        raise UsageError(
            f"{source} is a packed dataset already; to pack it in another way, write its samples "
            f"as files first: stoker unpack {source} FOLDER, then stoker pack FOLDER DEST"
        )
    if found in (None, "folder") and (remedy := how_to_convert(Path(source))) is not None:
        raise UsageError(remedy)
    if found in ("folder", "parallel") and (remedy := how_to_annotate(Path(source))) is not None:
        raise UsageError(remedy)
    if found is None:
        if not Path(source).exists() and not is_pattern(source):
            raise UsageError(f"{source} does not exist; check the path{why_absent(source)}")
        raise UsageError(
            f"{source}: the kind of this source is not recognized; expected a folder of "
            f"images, or name its kind: --kind {'|'.join(KINDS)}"
        )
    if KINDS[found].alone and has_pictures(Path(source)):
        raise UsageError(
            f"{source} has images, but also files of the kind {found}; choose which to pack: "
            f"--kind {found}, or --kind folder"
        )
    return _scan(found, Path(source), request)


def _is_packed(folder: Path) -> bool:
    """Return whether a folder is a packed dataset, and not one of images with a like file."""
    return (folder / MANIFEST).is_file() and not has_pictures(folder)


def unknown_kind(kind: str) -> UsageError:
    """Return the error for a kind that no source has."""
    return UsageError(f"--kind: expected one of {', '.join((AUTO, *KINDS))}, got {kind!r}")


def check_kinds(kind: str, fields: Mapping[str, str]) -> None:
    """Refuse a KIND of `--field NAME=KIND` that no source has, before one is opened.

    Args:
        kind: the kind of the source, or AUTO.
        fields: NAME -> KIND.

    Raises:
        UsageError: a KIND can be of no field.
    """
    for name, said in fields.items():
        if kind in (AUTO, ARRAYS) and is_array_kind(said):
            continue
        if kind == ARRAYS:
            raise no_array_kind(name, said)
        if said != IGNORE:
            declare(field_name(name), said, f"--field {name}={said}")


def kind_of(source: str) -> str | None:
    """Return the name of the first kind that a source looks like."""
    path = Path(source)
    if not path.exists() and not is_pattern(source) and not is_object(path):
        return None
    return next((name for name, kind in KINDS.items() if kind.knows(path)), None)


def _scan(name: str, path: Path, request: Request) -> SourceScan:
    for attribute, flag in _FLAGS.items():
        if getattr(request, attribute) and attribute not in KINDS[name].takes:
            raise UsageError(
                f"--{flag} does not apply to {path}, a source of the kind {name}; leave it out, "
                "or choose another --kind"
            )
    scan = KINDS[name].scan(path, request)
    lacking = [field.name for field in scan.fields if field.optional]
    if lacking and name not in _MAY_LACK:
        raise UsageError(
            f"{path}: {', '.join(lacking)} cannot be optional in a source of the kind {name}, only "
            f"in {', '.join(_MAY_LACK)}; leave out its fill"
        )
    return scan
