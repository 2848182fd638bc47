"""Where a YOLO dataset keeps its images and labels, and the names of its classes.

Supported are folders with a data.yaml in the form of Ultralytics and Roboflow, and plain images/
next to labels/. The path of an image's labels is that of the image with its last `images` replaced
by `labels`, and the suffix .txt. Source: https://docs.ultralytics.com/datasets/detect. A data.yaml
has at most 1 MiB, and is read by PyYAML's safe loader.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from stoker.dataset.format.item import SourceFile
from stoker.dataset.sources.common.walk import SUFFIXES, look_at, walk
from stoker.protocol.errors import UsageError

_NAMES = ("data.yaml", "dataset.yaml", "data.yml")
_SPLITS = ("train", "val", "valid", "test")
_MAX_YAML_BYTES = 2**20
_LOOKED_AT = 1000


@dataclass(frozen=True)
class YoloFolders:
    """One split of a YOLO dataset.

    Attributes:
        root: the folder that paths are relative to.
        images: the images, in order.
        labels: the label files, by path.
        classes: names of the classes, if known.
        points: (number of keypoints of an object, numbers per keypoint: 2, or 3 with visibility),
            or None.
        point_names: names of the keypoints 0, 1, ..., if they are known and are those of all
            classes.
        ignored: what was left out, with counts.
    """

    root: Path
    images: list[SourceFile]
    labels: dict[str, SourceFile]
    classes: tuple[str, ...] | None
    points: tuple[int, int] | None
    point_names: tuple[str, ...] | None
    ignored: Counter[str]


def is_yolo(source: Path) -> bool:
    """Whether this is a data.yaml, or a folder with one, or with images/ and labels/*.txt."""
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
    data = {} if described is None else _read_yaml(described)
    root = source if described is None else described.parent
    if isinstance(data.get("path"), str) and (root / data["path"]).is_dir():
        root = root / data["path"]
    folders = _folders(root, data, split)
    ignored: Counter[str] = Counter()
    images = [file for folder in folders for file in walk(root, folder, ignored)]
    if not images:
        raise UsageError(f"{source} has no image in {', '.join(folders)}; check the path")
    labels = {}
    for folder in folders:
        for path in sorted((root / _labels_of(folder)).rglob("*.txt")):
            name = str(PurePosixPath(path.relative_to(root)))
            if path.name != "classes.txt":
                labels[name] = look_at(path, name)
    classes, points = _classes(root, data), _points(source, data)
    names = None if points is None else _point_names(source, data, points[0])
    return YoloFolders(root, images, labels, classes, points, names, ignored)


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


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_YAML_BYTES + 1)
        if len(text) > _MAX_YAML_BYTES:
            raise UsageError(
                f"{path} is larger than {_MAX_YAML_BYTES} bytes, so it cannot be a data.yaml"
            )
        data = yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{path}: expected YAML: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected names of splits and classes, got {type(data).__name__}")
    return data


def _folders(root: Path, data: dict[str, Any], split: str) -> list[str]:
    """Return the folders of a split's images, relative to the root."""
    splits = {name: data[name] for name in _SPLITS if data.get(name)} or _split_folders(root)
    if split and split not in splits:
        raise UsageError(f"--split {split}: {root} has no such split, only "
                         f"{', '.join(splits) or 'images without splits'}")  # fmt: skip
    if not split and len(splits) > 1:
        raise UsageError(f"{root} has the splits {', '.join(splits)}; name one: --split "
                         f"{next(iter(splits))}")  # fmt: skip
    if not splits:
        return ["images"]
    found = splits[split or next(iter(splits))]
    return [_folder(root, folder) for folder in (found if isinstance(found, list) else [found])]


def _split_folders(root: Path) -> dict[str, Any]:
    return {name: f"images/{name}" for name in _SPLITS if (root / "images" / name).is_dir()}


def _folder(root: Path, name: Any) -> str:
    """Return a folder of images from data.yaml; Roboflow's `../` means the file's own folder."""
    for text in (str(name), str(name).removeprefix("../")):
        place = root / text
        if place.is_dir():
            plain = Path(text) if not Path(text).is_absolute() else place
            return str(PurePosixPath(plain))
    raise UsageError(f"{root / str(name)}: expected a folder of images, from data.yaml; lists of "
                     "files and archives are not supported: correct the path")  # fmt: skip


def _classes(root: Path, data: dict[str, Any]) -> tuple[str, ...] | None:
    names = data.get("names")
    if isinstance(names, dict):
        if names.keys() != set(range(len(names))):
            raise UsageError(f"names in data.yaml: expected classes 0, 1, ..., got {list(names)}")
        names = [names[number] for number in range(len(names))]
    if isinstance(names, list):
        return tuple(map(str, names))
    for place in (root / "classes.txt", root / "labels" / "classes.txt"):
        if place.is_file():
            lines = place.read_text("utf-8", errors="replace").splitlines()
            return tuple(line.strip() for line in lines if line.strip())
    return None


def _points(source: Path, data: dict[str, Any]) -> tuple[int, int] | None:
    shape = data.get("kpt_shape")
    if shape is None:
        return None
    good = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)
    if not good or not 1 <= shape[0] <= 2**10 or shape[1] not in (2, 3):
        raise UsageError(f"{source}: kpt_shape: expected [keypoints, 2 or 3], got {shape}")
    return shape[0], shape[1]


def _point_names(source: Path, data: dict[str, Any], count: int) -> tuple[str, ...] | None:
    """Return `kpt_names` of data.yaml, which is a list, or a list for each class."""
    given = data.get("kpt_names")
    if given is None:
        return None
    lists = list(given.values()) if isinstance(given, dict) else [given]
    for names in lists:
        if not isinstance(names, list) or len(names) != count or len({*map(str, names)}) != count:
            raise UsageError(
                f"{source}: kpt_names: expected {count} different names, as many as in kpt_shape, "
                f"or such a list for each class, got {names}"
            )
    found = {tuple(map(str, names)) for names in lists}
    return found.pop() if len(found) == 1 else None
