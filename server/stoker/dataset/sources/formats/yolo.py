"""YOLO: a text file of objects per image, one object per line, relative to width and height.

A line is a class and a box (center and size), or a class and the corners of an outline, or a class,
a box and keypoints, as in `kpt_shape` of data.yaml. An image whose file is empty or missing has no
objects. Boxes are in the order of lines. An outline gives its bounding box and, with `--masks`, a
mask: semantic masks hold the class plus 1, instance masks the number of the box plus 1, larger
outlines first. Keypoints have the number of the point, its visibility, and that `instance`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.source_item import (
    Given,
    Item,
    Outlines,
    SourceFile,
    ValueSource,
    WholeFile,
)
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.box_clipping import POINTS_LEFT_OUT, Changes, clip_boxes
from stoker.dataset.sources.common.lookalikes import remarks_on_lookalikes
from stoker.dataset.sources.common.readers import read_file
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.formats.yolo_layout import YoloFolders, find_layout, label_path
from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import EncodingError, decode_text

BACKGROUND = "background"
OUTLINES = "outlines packed as the boxes around them, which --masks would paint"
_SLACK = 1e-3
"""Part of a side by which labels may extend beyond it, because of few digits."""
_FARTHEST = 2.0
"""The greatest number that may be a part of a side; beyond it, numbers are in pixels."""
_MAX_LABEL_BYTES = 2**24
_MAX_VALUE = 255
_OBJECT_BYTES = 64


def scan_yolo(source: Path, request: Request) -> SourceScan:
    """Scan a YOLO dataset.

    Args:
        source: its folder, or its data.yaml.
        request: `split` is the part to use, `masks` what to paint.

    Raises:
        UsageError: the images are not found, a split is missing, or the requested masks are
            impossible.
    """
    layout = find_layout(source, request.split)
    scan = SourceScan(
        "yolo", layout.root, _fields(layout, request.masks), [], ignored=layout.ignored,
        remarks=[*layout.remarks, *remarks_on_lookalikes(layout.classes or ())],
    )  # fmt: skip
    reading = _YoloReading(layout, request)
    items, left = [], dict(layout.labels)
    sharing = Counter(label_path(image.path) for image in layout.images)
    for image in layout.images:
        name = label_path(image.path)
        file = left.pop(name, None)
        if sharing[name] > 1 and name in layout.labels:
            scan.bad.append((image.path, f"{sharing[name]} images share the labels {name}; give "
                             "each image a name of its own, or list it once"))  # fmt: skip
            continue
        if file is None:
            scan.ignored["images without a file of labels: packed without objects"] += 1
        try:
            items.append(reading.item(image, file))
            reading.changes.keep(image.path)
        except ValueError as error:
            reading.changes.drop()
            scan.bad.append((image.path if file is None else file.path, str(error)))
    scan.bad += [(path, "there is no image of this name") for path in left]
    scan.items, scan.notes = items, reading.changes.notes()
    return scan


def _fields(layout: YoloFolders, masks: str) -> tuple[schema.Field, ...]:
    parts = {"label": "int64"}
    if masks == "instance" or layout.points:
        parts["instance"] = "int64"
    boxes, mask, names = schema.boxes(fields=parts), schema.mask(), layout.classes
    if names is not None:
        boxes = schema.with_classes(boxes, names)
        if masks == "semantic":
            if len(names) > _MAX_VALUE:
                raise UsageError(f"there are {len(names)} classes, but a mask holds up to "
                                 f"{_MAX_VALUE}; use --masks instance")  # fmt: skip
            mask = schema.with_classes(mask, [BACKGROUND, *names])
    fields = [schema.image(), boxes, *([mask] if masks else [])]
    if layout.points:
        point = {"keypoint": "int64", "visibility": "uint8", "instance": "int64"}
        points = schema.keypoints(fields=point)
        names = layout.point_names
        fields.append(points if names is None else schema.with_classes(points, names))
    return tuple(fields)


@dataclass
class _Objects:
    """The objects of one image, relative to its width and height, and their line numbers."""

    lines: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    corners: list[list[float]] = field(default_factory=list)
    outlines: list[list[float]] = field(default_factory=list)
    points: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("xy", "keypoint", "visibility", "instance")}
    )


class _YoloReading:
    """Converts label files to items."""

    def __init__(self, layout: YoloFolders, request: Request) -> None:
        self._layout, self._masks, self._clip = layout, request.masks, request.clip
        self._all_points = request.all_keypoints
        self.changes = Changes()

    def item(self, image: SourceFile, file: SourceFile | None) -> Item:
        """Return the item of an image.

        Raises:
            ValueError: its labels are invalid.
        """
        objects = _Objects()
        for number, line in enumerate(self._lines(file), 1):
            if not line.strip():
                continue
            objects.lines.append(number)
            try:
                self._add(objects, line.split())
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        kept = self._tidy(objects)
        places: list[ValueSource] = [WholeFile(image), Given(self._boxes(objects, kept))]
        if self._masks:
            places.append(self._outlines(objects, kept))
        if self._layout.points:
            places.append(Given(_points_of(objects, kept)))
        size_bytes = image.size_bytes + _OBJECT_BYTES * len(objects.labels)
        return Item(image.path, size_bytes, tuple(places))

    def _lines(self, file: SourceFile | None) -> Iterable[str]:
        if file is None:
            return []
        if file.size_bytes > _MAX_LABEL_BYTES:
            raise ValueError(f"it has {file.size_bytes} bytes, more than {_MAX_LABEL_BYTES}")
        try:
            text = decode_text(read_file(self._layout.root, file))
        except (CodecError, EncodingError) as error:
            raise ValueError(str(error)) from None
        return text.splitlines()

    def _add(self, objects: _Objects, words: list[str]) -> None:
        """Add the object of a line.

        Raises:
            ValueError: it is not an object.
        """
        try:
            numbers = np.array([float(word) for word in words], np.float64)
        except ValueError:
            raise ValueError(f"expected numbers, got {' '.join(words)[:80]!r}") from None
        if not np.isfinite(numbers).all():
            raise ValueError("expected finite numbers")
        label, given, count = numbers[0], numbers[1:], self._layout.count
        if label != int(label) or label < 0 or (count is not None and label >= count):
            most = "on" if count is None else f"to {count - 1}"
            raise ValueError(f"expected a class from 0 {most}, got {words[0]}")
        objects.labels.append(int(label))
        sides = given if self._layout.points is None else given[:4]
        if np.abs(sides).max(initial=0) > _FARTHEST:
            far = sides[np.abs(sides).argmax()]
            raise ValueError(
                f"expected parts of the image's sides, from 0 to 1, got {far:g}; divide numbers in "
                "pixels by the image's width and height"
            )
        if self._layout.points is not None:
            self._add_points(objects, given)
        elif len(given) == 4:
            objects.corners.append(_corners(given))
            objects.outlines.append([])
        elif len(given) >= 6 and len(given) % 2 == 0:
            around = given.reshape(-1, 2)
            objects.corners.append([*around.min(axis=0).tolist(), *around.max(axis=0).tolist()])
            objects.outlines.append(given.tolist())
            if not self._masks:
                self.changes.add(OUTLINES)
        else:
            hint = "; if the fifth is a confidence, leave it out" if len(given) == 5 else ""
            raise ValueError(
                f"expected a class and 4 numbers of a box, or x and y of at least 3 corners, got "
                f"{len(given)} numbers after the class{hint}"
            )
        if self._masks and not (objects.outlines and objects.outlines[-1]):
            raise ValueError("expected an outline, from which --masks makes a mask, got only a box")

    def _add_points(self, objects: _Objects, given: np.ndarray) -> None:
        assert self._layout.points is not None
        count, width = self._layout.points
        if len(given) != 4 + count * width:
            raise ValueError(
                f"expected a class, 4 numbers of a box and {width} of each of {count} keypoints, "
                f"got {len(given)} numbers after the class"
            )
        objects.corners.append(_corners(given[:4]))
        for number, point in enumerate(given[4:].reshape(count, width).tolist()):
            visibility = point[2] if width == 3 else 2.0 * (min(point) >= 0)
            if visibility not in (0, 1, 2):
                raise ValueError(f"expected a visibility of 0, 1 or 2, got {visibility}")
            if not visibility and self._all_points:
                point = [0.0, 0.0]  # noqa: PLW2901 - the file's numbers mean nothing
            inside = min(point[:2]) >= 0 and max(point[:2]) <= 1
            if visibility and not inside and not self._clip:
                raise ValueError(f"keypoint {number} at {point[:2]} is outside of the image; "
                                 "repair it, or pass --clip to leave it out")  # fmt: skip
            if visibility and not inside:
                self.changes.add(POINTS_LEFT_OUT)
            elif visibility or self._all_points:
                values = (point[:2], number, int(visibility), len(objects.labels))
                for column, value in zip(objects.points.values(), values, strict=True):
                    column.append(value)

    def _tidy(self, objects: _Objects) -> np.ndarray:
        """Clip boxes to the image, and return which of them are kept."""
        corners = np.array(objects.corners, np.float64).reshape(-1, 4)
        found = clip_boxes(corners, (1.0, 1.0), _SLACK, self._clip)
        for numbers, what in (
            (found.negative, "has a negative width or height, {}; repair it"),
            (found.outside, "is outside of the image, {}; repair it, or pass --clip to clip it"),
        ):
            if numbers:
                box = f"{np.round(corners[numbers[0]], 6).tolist()} (left, top, right, bottom)"
                raise ValueError(
                    f"line {objects.lines[numbers[0]]}: its box, in parts of the image's sides, "
                    + what.format(box)
                )
        self.changes.add_boxes(found)
        objects.corners = found.corners.tolist()
        return found.kept

    def _boxes(self, objects: _Objects, kept: np.ndarray) -> Mapping[str, Any]:
        numbers = np.flatnonzero(kept).tolist()
        boxes: dict[str, Any] = {
            "relative_xyxy": [objects.corners[number] for number in numbers],
            "label": [objects.labels[number] for number in numbers],
        }
        if self._masks == "instance" or self._layout.points:
            boxes["instance"] = [number + 1 for number in numbers]
        return boxes

    def _outlines(self, objects: _Objects, kept: np.ndarray) -> Outlines:
        numbers = np.flatnonzero(kept).tolist()
        values = [
            number if self._masks == "instance" else objects.labels[number] for number in numbers
        ]
        if max(values, default=0) >= _MAX_VALUE:
            raise ValueError(f"a mask holds values up to {_MAX_VALUE}, got {max(values) + 1}")
        shapes = [
            (_area(objects.outlines[number]), value + 1, objects.outlines[number])
            for number, value in zip(numbers, values, strict=True)
        ]
        shapes.sort(key=lambda shape: -shape[0])
        painted = ((value, msgspec.json.encode([outline])) for _, value, outline in shapes)
        return Outlines(tuple(painted), relative=True)


def _corners(box: np.ndarray) -> list[float]:
    """Return (left, top, right, bottom) of a center and a size."""
    corners: list[float] = np.concatenate([box[:2] - box[2:] / 2, box[:2] + box[2:] / 2]).tolist()
    return corners


def _area(outline: list[float]) -> float:
    x, y = np.array(outline).reshape(-1, 2).T
    return abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))) / 2


def _points_of(objects: _Objects, kept: np.ndarray) -> Mapping[str, Any]:
    """Return the keypoints of the kept objects; YOLO divides COCO's pixel indices by the sides."""
    columns = objects.points
    which = [place for place, number in enumerate(columns["instance"]) if kept[number - 1]]
    chosen = {name: [column[place] for place in which] for name, column in columns.items()}
    return {"relative_pixel_xy": chosen.pop("xy"), **chosen}
