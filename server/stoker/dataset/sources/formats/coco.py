"""COCO: a JSON file of instances or keypoints, and a folder of images.

A sample is an image, with or without annotations, in the order of image ids. Its boxes are in the
order of the file, each with the class (`label`, from 0, in the order of category ids, which the
manifest keeps), area, whether it is a crowd, and the id of its annotation. Masks are painted from
polygons and run-length codes, larger objects first, so that smaller ones stay visible: semantic
masks hold the class plus 1, instance masks the number of the box plus 1; 0 is background. Labeled
keypoints (visibility 1 and 2) are items with the number of the point and the annotation; the file's
numbers are indices of pixels. On request, points that are not labeled are items too, at (0, 0).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET

from stoker.dataset.format import schema
from stoker.dataset.format.source_item import Given, Item, Outlines, ValueSource, WholeFile
from stoker.dataset.sources.common.box_clipping import POINTS_LEFT_OUT, Changes, clip_boxes
from stoker.dataset.sources.common.lookalikes import remarks_on_lookalikes
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import look_at
from stoker.dataset.sources.formats.coco_file import (
    CocoAnnotation,
    CocoCategory,
    CocoFile,
    CocoImage,
    read_coco,
)
from stoker.dataset.sources.formats.coco_folder import find_images
from stoker.protocol.errors import UsageError

BACKGROUND = "background"
NO_ID = -1
_ROBOFLOW = "_annotations.coco.json"
_SLACK_PIXELS = 1.0
_MAX_VALUE = 255
_SHOWN = 3
_ANNOTATION_BYTES = 64
_BOX_PARTS = {"label": "int64", "area": "float32", "crowd": "bool", "annotation": "int64"}
_POINT_PARTS = {"keypoint": "int64", "visibility": "uint8", "annotation": "int64"}


def is_coco(source: Path) -> bool:
    """Return whether this is a JSON file, or a folder with one next to its images."""
    return (source.is_file() and source.suffix.lower() == ".json") or (source / _ROBOFLOW).is_file()


def scan_coco(source: Path, request: Request) -> SourceScan:
    """Scan COCO annotations.

    Args:
        source: the JSON file, or a folder with `_annotations.coco.json` and the images.
        request: `images` is their folder, if it is not one of the usual; `masks` what to paint.

    Raises:
        UsageError: the file has another form, ids of images or categories occur twice, or the
            images are not found.
    """
    path = source / _ROBOFLOW if source.is_dir() else source
    file = read_coco(path)
    _refuse_relative(path, file.annotations or ())
    if file.annotations is UNSET and request.masks:
        raise UsageError(f"{path} has no annotations to paint; leave --masks out")
    _refuse_twins(path, "image", [image.id for image in file.images])
    _refuse_twins(path, "category", [category.id for category in file.categories])
    root = find_images(path, [image.file_name for image in file.images], request.images)
    return _CocoReading(path, file, root, request).scan()


def _refuse_relative(path: Path, annotations: Sequence[CocoAnnotation]) -> None:
    """Refuse boxes in parts of the image's sides, which would be smaller than a pixel."""
    parts = 0
    for one in annotations:
        if max(one.bbox) > 1:
            return
        parts += any(0 < number < 1 for number in one.bbox)
    if parts:
        raise UsageError(
            f"{path}: no box reaches beyond one pixel, such as {annotations[0].bbox} of annotation "
            f"{annotations[0].id}, so they seem to be parts of the image's sides; multiply them by "
            "its width and height"
        )


def _refuse_twins(path: Path, what: str, ids: Sequence[int]) -> None:
    seen: set[int] = set()
    for number in ids:
        if number in seen:
            raise UsageError(f"{path}: {what} id {number} occurs twice; remove one of them")
        seen.add(number)


class _CocoReading:
    """Converts the records of a file to items."""

    def __init__(self, path: Path, file: CocoFile, root: Path, request: Request) -> None:
        self._path, self._file, self._root = path, file, root
        self._bare = file.annotations is UNSET
        self._masks, self._clip = request.masks, request.clip
        self._all_points = request.all_keypoints
        categories = sorted(file.categories, key=lambda category: category.id)
        self._categories = categories
        self._classes = {category.id: number for number, category in enumerate(categories)}
        self._first_point = _numbered_points(categories)
        self._objects: dict[int, list[CocoAnnotation]] = defaultdict(list)
        self._changes = Changes()

    def scan(self) -> SourceScan:
        """Return the whole scan."""
        scan = SourceScan("coco", self._root, self._fields(), [], remarks=self._remarks())
        images = {image.id: image for image in self._file.images}
        seen: set[int] = set()
        for annotation in self._file.annotations or ():
            name = f"{self._path.name}, annotation {annotation.id}"
            if annotation.id in seen:
                scan.bad.append((name, "an earlier annotation has the same id; remove one"))
            elif annotation.image_id not in images:
                scan.bad.append((name, f"there is no image with the id {annotation.image_id}"))
            else:
                self._objects[annotation.image_id].append(annotation)
            seen.add(annotation.id)
        items = []
        for image in sorted(self._file.images, key=lambda image: image.id):
            try:
                items.append(self._item(image))
                self._changes.keep(image.file_name)
            except ValueError as error:
                self._changes.drop()
                scan.bad.append((image.file_name, str(error)))
        scan.items, scan.notes = items, self._changes.notes()
        return scan

    def _remarks(self) -> list[str]:
        """Return what the owner should know about the file."""
        found = []
        if self._bare:
            found.append(
                f"{self._path.name} has no annotations: its images are packed with their ids alone"
            )
        else:
            names = [category.name for category in self._categories]
            found += remarks_on_lookalikes(names)
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                found.append(f"{names.count(twice[0])} categories are named {twice[0]!r}, and stay "
                             "different classes; if they are one, join them")  # fmt: skip
        files = Counter(image.file_name for image in self._file.images)
        if again := [name for name, count in files.items() if count > 1]:
            found.append(
                f"{len(again)} files are the images of several ids, such as {again[0]}: each id is "
                "a sample with its own annotations"
            )
        return found

    def _fields(self) -> tuple[schema.Field, ...]:
        if self._bare:
            return schema.image(), schema.scalar("image_id", "int64")
        names = [category.name for category in self._categories]
        ids = [category.id for category in self._categories]
        parts = dict(_BOX_PARTS)
        if self._masks == "instance":
            parts["instance"] = "int64"
        fields = [
            schema.image(),
            schema.with_classes(schema.boxes(fields=parts), names, ids),
            schema.scalar("image_id", "int64"),
        ]
        if self._masks == "semantic":
            if len(names) > _MAX_VALUE:
                raise UsageError(f"{self._path} has {len(names)} categories, but a mask holds up "
                                 f"to {_MAX_VALUE}; use --masks instance")  # fmt: skip
            fields.append(schema.with_classes(schema.mask(), [BACKGROUND, *names], [NO_ID, *ids]))
        elif self._masks == "instance":
            fields.append(schema.mask())
        if points := _point_names(self._categories):
            fields.append(schema.with_classes(schema.keypoints(fields=_POINT_PARTS), points))
        return tuple(fields)

    def _item(self, image: CocoImage) -> Item:
        """Return the item of an image.

        Raises:
            ValueError: one of its annotations is invalid.
        """
        if self._bare:
            file = look_at(self._root / image.file_name, image.file_name)
            alone = WholeFile(file), Given(image.id)
            return Item(image.file_name, file.size_bytes, alone, (image.height, image.width))
        objects = self._objects.pop(image.id, [])
        for one in objects:
            if one.category_id not in self._classes:
                raise ValueError(
                    f"annotation {one.id}: there is no category with the id {one.category_id}"
                )
        objects, boxes = self._boxes(image, objects)
        file = look_at(self._root / image.file_name, image.file_name)
        places: list[ValueSource] = [WholeFile(file), Given(boxes), Given(image.id)]
        if self._masks:
            places.append(self._outlines(objects))
        if self._first_point:
            places.append(Given(self._keypoints(image, objects)))
        size_bytes = file.size_bytes + _ANNOTATION_BYTES * len(objects)
        return Item(image.file_name, size_bytes, tuple(places), (image.height, image.width))

    def _boxes(
        self, image: CocoImage, objects: list[CocoAnnotation]
    ) -> tuple[list[CocoAnnotation], Mapping[str, Any]]:
        given = np.array([one.bbox for one in objects], np.float64).reshape(-1, 4)
        corners = np.hstack([given[:, :2], given[:, :2] + given[:, 2:]])
        most = float(image.width), float(image.height)
        found = clip_boxes(corners, most, _SLACK_PIXELS, self._clip)
        if found.negative:
            raise ValueError(
                f"{len(found.negative)} boxes have a negative width or height, or one that is not "
                f"finite: {_shown(objects, given, found.negative)} (left, top, width, height); "
                "repair them"
            )
        if found.outside:
            raise ValueError(
                f"{len(found.outside)} boxes are outside of its {image.height}x{image.width} "
                f"pixels (height x width): {_shown(objects, given, found.outside)}; repair them, "
                "or pass --clip to clip them"
            )
        self._changes.add_boxes(found)
        kept = found.kept
        objects = [one for one, keep in zip(objects, kept, strict=True) if keep]
        columns: dict[str, Any] = {
            "xyxy": found.corners[kept].tolist(),
            "label": [self._classes[one.category_id] for one in objects],
            "area": [_area(one) for one in objects],
            "crowd": [bool(one.iscrowd) for one in objects],
            "annotation": [one.id for one in objects],
        }
        if self._masks == "instance":
            columns["instance"] = list(range(1, len(objects) + 1))
        return objects, columns

    def _outlines(self, objects: list[CocoAnnotation]) -> Outlines:
        if self._masks == "instance" and len(objects) > _MAX_VALUE:
            raise ValueError(
                f"it has {len(objects)} objects, but an instance mask holds up to {_MAX_VALUE}; "
                "leave it out with --skip-bad, or use --masks semantic"
            )
        shapes = []
        for number, one in enumerate(objects):
            value = number if self._masks == "instance" else self._classes[one.category_id]
            if one.segmentation is UNSET or bytes(one.segmentation) in (b"null", b"[]"):
                self._changes.add("objects without an outline, which the mask does not show")
            else:
                shapes.append((-_area(one), value + 1, bytes(one.segmentation)))
        shapes.sort(key=lambda shape: shape[0])
        return Outlines(tuple((value, text) for _, value, text in shapes))

    def _keypoints(self, image: CocoImage, objects: list[CocoAnnotation]) -> Mapping[str, Any]:
        columns: dict[str, list[Any]] = {"pixel_xy": [], **{name: [] for name in _POINT_PARTS}}
        for one in objects:
            for number, x, y, visibility in self._points(one):
                inside = 0 <= x <= image.width and 0 <= y <= image.height
                if not inside and not self._clip:
                    raise ValueError(
                        f"annotation {one.id}: its keypoint {number} at ({x}, {y}) is outside of "
                        f"its {image.height}x{image.width} pixels (height x width); repair it, or "
                        "pass --clip to leave it out"
                    )
                if inside:
                    columns["pixel_xy"].append([x, y])
                    columns["keypoint"].append(number)
                    columns["visibility"].append(visibility)
                    columns["annotation"].append(one.id)
                else:
                    self._changes.add(POINTS_LEFT_OUT)
        return columns

    def _points(self, one: CocoAnnotation) -> Iterator[tuple[int, float, float, int]]:
        """Yield (number, x, y, visibility) of the keypoints of an object that are kept."""
        if not one.keypoints:  # null and an empty list: none is labeled
            return
        category = self._categories[self._classes[one.category_id]]
        if len(one.keypoints) != 3 * len(category.keypoints):
            raise ValueError(
                f"annotation {one.id}: expected x, y and visibility of {len(category.keypoints)} "
                f"keypoints of the category {category.name!r}, got {len(one.keypoints)} numbers"
            )
        triples = zip(*(iter(one.keypoints),) * 3, strict=True)
        for number, (x, y, visibility) in enumerate(triples, self._first_point[category.id]):
            if visibility not in (0, 1, 2):
                raise ValueError(
                    f"annotation {one.id}: expected a visibility of 0, 1 or 2, got {visibility}"
                )
            if visibility:
                yield number, x, y, int(visibility)
            elif self._all_points:
                yield number, 0, 0, 0


def _area(one: CocoAnnotation) -> float:
    return one.bbox[2] * one.bbox[3] if one.area is UNSET else one.area


def _shown(objects: list[CocoAnnotation], given: np.ndarray, bad: list[int]) -> str:
    shown = [f"annotation {objects[place].id}: {given[place].tolist()}" for place in bad[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(bad) - _SHOWN} more" * (len(bad) > _SHOWN))


def _numbered_points(categories: list[CocoCategory]) -> dict[int, int]:
    """Return category id -> number of its first keypoint, for those that have any."""
    first, count = {}, 0
    for category in categories:
        if category.keypoints:
            first[category.id] = count
            count += len(category.keypoints)
    return first


def _point_names(categories: list[CocoCategory]) -> list[str]:
    """Return the names of all keypoints, prefixed by the category if several have some."""
    having = [category for category in categories if category.keypoints]
    several = len(having) > 1
    return [
        f"{category.name}/{name}" if several else name
        for category in having
        for name in category.keypoints
    ]
