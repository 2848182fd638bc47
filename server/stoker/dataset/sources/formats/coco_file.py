"""The JSON file of COCO annotations, as records; unneeded parts are not read.

A file without annotations describes images alone, as image_info_test2017.json does.

Source: https://cocodataset.org/#format-data. A file has at most 4 GiB. Segmentations stay JSON text
until a worker paints them.
"""

import difflib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import EncodingError, without_mark

_ANNOTATIONS = "annotations"
_ALIKE = 0.85
"""Similarity of difflib from which a key counts as misspelled."""
MAX_BYTES = 4 * 2**30
Side = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Four = Annotated[list[float], msgspec.Meta(min_length=4, max_length=4)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class CocoImage(msgspec.Struct):
    """An image."""

    id: Whole
    file_name: str
    height: Side
    width: Side


class CocoCategory(msgspec.Struct):
    """A category, with the names of its keypoints."""

    id: Whole
    name: str
    keypoints: list[str] = []


class CocoAnnotation(msgspec.Struct):
    """An object in an image."""

    id: Whole
    image_id: Whole
    category_id: Whole
    bbox: Four
    area: float | UnsetType = UNSET
    iscrowd: int | bool = 0
    segmentation: Raw | UnsetType = UNSET
    keypoints: list[float] | None = None


class CocoFile(msgspec.Struct):
    """A file of instances or keypoints, or of images alone."""

    images: list[CocoImage]
    annotations: list[CocoAnnotation] | UnsetType = UNSET
    categories: list[CocoCategory] = []


def read_coco(path: Path) -> CocoFile:
    """Read a file.

    Raises:
        UsageError: it cannot be read, or has another form.
    """
    file, keys = _decoded(path)
    if not file.images or (file.annotations is not UNSET and not file.categories):
        raise UsageError(f"{path}: expected images and categories, got none of one of them")
    meant = difflib.get_close_matches(_ANNOTATIONS, keys, 1, _ALIKE)
    if file.annotations is UNSET and meant:
        raise UsageError(
            f"{path}: unknown key {meant[0]!r}; did you mean {_ANNOTATIONS!r}? Otherwise rename or "
            "remove it"
        )
    return file


def _decoded(path: Path) -> tuple[CocoFile, list[str]]:
    """Return the records and, if annotations are missing, the names of all parts."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES} bytes; split it")
        data = without_mark(path.read_bytes())
        file = msgspec.json.decode(data, type=analyzed(CocoFile))
        lacking = file.annotations is UNSET
        return file, list(
            msgspec.json.decode(data, type=analyzed(dict[str, Raw]))
        ) if lacking else []
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    except EncodingError as error:
        raise UsageError(f"{path}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{path}: expected annotations in COCO's format: {error}; captions, panoptic segments "
            "and results have other forms"
        ) from None
