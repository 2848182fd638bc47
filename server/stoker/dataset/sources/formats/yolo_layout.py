"""Finds the images and labels of a YOLO dataset, and the names of its classes.

Supported are folders with a data.yaml in the form of Ultralytics and Roboflow, and plain images/
next to labels/. The path of an image's labels is that of the image with its last `images` replaced
by `labels`, and the suffix .txt. A split is a folder, a .txt that lists images, or several of them.
Source: https://docs.ultralytics.com/datasets/detect.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from stoker.dataset.format.source_item import SourceFile
from stoker.dataset.sources.common.class_order import read_classes
from stoker.dataset.sources.common.walk import SUFFIXES, is_file, is_folder, look_at, walk
from stoker.dataset.sources.formats.yolo_keys import check_keys, count_of
from stoker.dataset.sources.formats.yolo_yaml import (
    names_of,
    point_names_of,
    points_of,
    quoted,
    read_yaml,
    splits_of,
)
from stoker.protocol.errors import UsageError
from stoker.protocol.files.absent import why_absent
from stoker.protocol.files.text import EncodingError, read_text

_NAMES = ("data.yaml", "dataset.yaml", "data.yml")
_SPLITS = ("train", "val", "valid", "test")
_LABELS = frozenset([".txt"])
_LOOKED_AT = 1000


@dataclass(frozen=True)
class YoloFolders:
    """One split of a YOLO dataset.

    Attributes:
        root: the folder that paths are relative to.
        images: the images, in order.
        labels: the label files, by path.
        classes: names of the classes, if known.
        count: number of classes, if known.
        points: (number of keypoints of an object, numbers per keypoint: 2, or 3 with visibility),
            or None.
        point_names: names of the keypoints 0, 1, ..., if they are known and are those of all
            classes.
        ignored: what was left out, with counts.
        remarks: what the owner should know, one line each.
    """

    root: Path
    images: list[SourceFile]
    labels: dict[str, SourceFile]
    classes: tuple[str, ...] | None
    count: int | None
    points: tuple[int, int] | None
    point_names: tuple[str, ...] | None
    ignored: Counter[str]
    remarks: list[str]


def is_yolo(source: Path) -> bool:
    """Return whether this is a data.yaml, or a folder with one or with images/ and labels/*.txt."""
    if source.is_file():
        return source.suffix.lower() in (".yaml", ".yml")
    if _yaml_in(source) is not None:
        return True
    if not (source / "images").is_dir() or not (source / "labels").is_dir():
        return False
    found = (path for path in (source / "labels").rglob("*") if path.is_file())
    looked = [path.suffix.lower() for _, path in zip(range(_LOOKED_AT), found, strict=False)]
    return ".txt" in looked and not SUFFIXES & set(looked)


def find_layout(source: Path, split: str) -> YoloFolders:
    """Find the images and labels of a split.

    Args:
        source: data.yaml, or the folder.
        split: its name in data.yaml, or of the folder in images/; empty if there are no splits.

    Raises:
        UsageError: there is no such split, no split was named of several, or there are no images.
    """
    described = source if source.is_file() else _yaml_in(source)
    data: dict[str, Any] = {}
    remarks: list[str] = []
    root = source if described is None else described.parent
    if described is not None:
        data = read_yaml(described)
        remarks += check_keys(data, described)
        root = _root(described, data, remarks)
    ignored: Counter[str] = Counter()
    images: list[SourceFile] = []
    labels: dict[str, SourceFile] = {}
    places = [_place(root, name, remarks) for name in _places(root, data, split)]
    for place in places:
        if (root / place).is_dir():
            images += walk(root, place, ignored)
            labels |= _labels_in(root, place, ignored)
        else:
            listed = _listed(root, place)
            images += listed
            paths = (label_path(image.path) for image in listed)
            labels |= {name: look_at(root / name, name) for name in paths if is_file(root / name)}
    if not images:
        raise UsageError(f"{source} has no image in {', '.join(places)}; check the path")
    classes = _classes(root, data)
    count = count_of(data, classes, described or source)
    points = points_of(data, source)
    names = None if points is None else point_names_of(data, source, points[0])
    labeled = any(label_path(image.path) in labels for image in images)
    if not labeled and any(image.size_bytes for image in images):
        _refuse_unlabeled(source, images, ignored)
    return YoloFolders(root, images, labels, classes, count, points, names, ignored, remarks)


def _root(described: Path, data: dict[str, Any], remarks: list[str]) -> Path:
    """Return the folder that the paths of a data.yaml start at.

    Raises:
        UsageError: `path` is not a text.
    """
    given = data.get("path", "")
    if not isinstance(given, str):
        raise UsageError(f"{described}: path: expected one folder, got {quoted(given)}")
    if is_folder(described.parent / given):
        return described.parent / given
    if given not in ("~", "null"):
        remarks.append(
            f"{described}: there is no folder {quoted(given)}, which path names, so the images "
            f"are searched from the folder of this file{why_absent(given)}"
        )
    return described.parent


def _labels_in(root: Path, place: str, ignored: Counter[str]) -> dict[str, SourceFile]:
    """Return the label files of a folder of images, by path; count other files among them."""
    found, others, folder = {}, Counter[str](), _labels_of(place)
    if is_folder(root / folder):
        for file in walk(root, folder, others, _LABELS):
            if not file.path.endswith(".txt"):
                others[f"{Path(file.path).suffix} files"] += 1
            elif file.path.rpartition("/")[2] != "classes.txt":
                found[file.path] = file
    if folder == place:
        ignored -= Counter({".txt files": len(found)})  # they were counted among the images
    else:
        ignored.update({f"{what} among the labels": count for what, count in others.items()})
    return found


def _refuse_unlabeled(source: Path, images: list[SourceFile], ignored: Counter[str]) -> None:
    """Refuse images of which none has labels: their folder is missing, or has another name.

    Raises:
        UsageError: always.
    """
    first = images[0].path
    there = ", ".join(f"{count} {what}" for what, count in ignored.items() if "hidden" not in what)
    raise UsageError(
        f"{source}: none of its {len(images)} images has a file of labels: expected "
        f"{label_path(first)} for {first}{f', got {there}' * bool(there)}; an empty file says that "
        "an image has no objects; to pack images alone, pack their folder with --kind folder"
    )


def label_path(image: str) -> str:
    """Return the path of the labels of an image."""
    folder = _labels_of(str(PurePosixPath(image).parent))
    return str(PurePosixPath(folder) / f"{PurePosixPath(image).stem}.txt")


def _labels_of(folder: str) -> str:
    parts = folder.split("/")
    last = max((place for place, part in enumerate(parts) if part == "images"), default=None)
    if last is not None:
        parts[last] = "labels"
    return "/".join(parts)


def _yaml_in(folder: Path) -> Path | None:
    return next((folder / name for name in _NAMES if (folder / name).is_file()), None)


def _places(root: Path, data: dict[str, Any], split: str) -> list[str]:
    """Return the folders and lists of a split's images, as data.yaml names them."""
    splits = splits_of(data) or _split_folders(root)
    if split and split not in splits:
        raise UsageError(f"--split {split}: {root} has no such split, only "
                         f"{', '.join(splits) or 'images without splits'}")  # fmt: skip
    if not split and len(splits) > 1:
        raise UsageError(f"{root} has the splits {', '.join(splits)}; name one: --split "
                         f"{next(iter(splits))}")  # fmt: skip
    return splits[split or next(iter(splits))] if splits else ["images"]


def _split_folders(root: Path) -> dict[str, list[str]]:
    return {name: [f"images/{name}"] for name in _SPLITS if (root / "images" / name).is_dir()}


def _place(root: Path, name: str, remarks: list[str]) -> str:
    """Return a folder or list from data.yaml; Roboflow's `../` means the file's own folder."""
    for text in (name, name.removeprefix("../")):
        place = root / text
        if is_folder(place) or (is_file(place) and place.suffix.lower() == ".txt"):
            return str(PurePosixPath(place if Path(text).is_absolute() else Path(text)))
    note = f" ({remarks[0]})" if remarks else ""
    raise UsageError(f"{root / name}: expected a folder of images, or a .txt with the path of an "
                     f"image in each line, from data.yaml; correct the path{why_absent(name)}{note}"
                     )  # fmt: skip


def _listed(root: Path, name: str) -> list[SourceFile]:
    """Return the images that a list names; `./` and other relative paths start at the list."""
    try:
        lines = read_text(root / name).splitlines()
    except (OSError, EncodingError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{root / name}: {reason}") from None
    found = []
    for line in filter(None, map(str.strip, lines)):
        path = os.path.normpath((root / name).parent / line)
        short = os.path.relpath(path, root)
        found.append(look_at(Path(path), path if short.startswith("..") else short))
    return found


def _classes(root: Path, data: dict[str, Any]) -> tuple[str, ...] | None:
    if (names := names_of(data)) is not None:
        return names
    for place in (root / "classes.txt", root / "labels" / "classes.txt"):
        if place.is_file():
            return read_classes(place, "names of classes")
    return None
