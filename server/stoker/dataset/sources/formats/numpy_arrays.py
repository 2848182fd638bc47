"""NumPy: one array per field, in an .npz, in a folder of .npy files, or in one .npy.

Row i of every array is sample i. The kind of an array is that of `--field NAME=KIND` (image, mask,
label, array, or ignore). Without it, uint8 of (rows, h, w, 3) is an image, uint8 of (rows, h, w) an
image of one channel if its name suggests it, integers or bools of (rows, h, w) a mask if its name
suggests it, integers of (rows,) a label if its name suggests it, and anything else an array or a
scalar. A file of plain bytes needs KIND and shape:
`images.bin=image[32,32,3]`, `poses.raw=float32[17,2]`. With `--split train`, arrays with that word
in their name are used (`x_train`, `train_images`), and the word is removed. Pixels are stored raw.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.format.fields import MAX_CHANNELS, PIXELS, VECTORS
from stoker.dataset.format.source_item import Extract, Item
from stoker.dataset.sources.common.field_notation import IGNORE, declare, field_name
from stoker.dataset.sources.common.lazy_items import LazyItems
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.formats.array_files import StoredArray, open_npy, open_npz, open_raw
from stoker.protocol.errors import UsageError
from stoker.protocol.masks import MASK_DTYPES, is_mask_form

NPY, NPZ = ".npy", ".npz"
_KINDS = ("image", "mask", "label", "array", *VECTORS, IGNORE)
_RAW = re.compile(r"([a-z]+[0-9]*)(?:\[([1-9][0-9]*(?:,[1-9][0-9]*)*)\])?")
_RAW_DTYPES = {"image": "uint8", "mask": "uint8", "label": "int64"}
_ROW_FORMS = "image[32,32,3], mask[32,32], label or float32[17,2]"
_IMAGES = frozenset(["x", "images", "image", "imgs", "img", "data"])
_LABELS = frozenset(["y", "labels", "label", "targets", "target", "classes", "class"])
_MASK = re.compile(r"mask|segm|annot", re.IGNORECASE)
_LEAST_SIDE = 8
"""Least side of a gray image; tables of numbers are narrower."""
_ORDER = {"image": 0, "mask": 1}


def is_arrays(source: Path) -> bool:
    """Return whether this is an .npy, an .npz, or a folder of .npy files."""
    if source.is_dir():
        return any(source.glob(f"*{NPY}"))
    return source.suffix.lower() in (NPY, NPZ)


def scan_arrays(source: Path, request: Request) -> SourceScan:
    """Scan NumPy arrays.

    Args:
        source: .npy, .npz, or a folder.
        request: its fields are array -> KIND, as above; `split` the word in the names.

    Raises:
        UsageError: there is no array, one cannot become a field, or the numbers of rows differ.
    """
    root = source if source.is_dir() else source.parent
    fields = dict(request.fields)
    arrays = _open(source, root, fields)
    for name in fields.keys() - {array.name for array in arrays} - _ignored(fields):
        raise UsageError(f"--field {name}={fields[name]}: {source} has no such array, only "
                         f"{', '.join(array.name for array in arrays)}")  # fmt: skip
    if request.split:
        arrays = _of_split(arrays, request.split, fields)
    chosen = [
        (_field(array, fields.get(array.name, "")), array)
        for array in arrays
        if fields.get(array.name) != IGNORE
    ]
    chosen.sort(key=lambda pair: _ORDER.get(pair[0].kind, 2))
    _check(source, chosen)
    scan = SourceScan("arrays", root, tuple(field for field, _ in chosen), [], aligned=False)
    scan.containers = [
        msgspec.structs.replace(array.container, shape=_row_shape(field, array))
        for field, array in chosen
    ]
    scan.items = ArrayItems(source.name, [array for _, array in chosen])
    scan.remarks += [
        f"array {array.name!r} has rows of the shape {array.container.shape}, as images with their "
        "channels first, and is packed as an array; for images, save it with the channels last, as "
        "in x.transpose(0, 2, 3, 1)"
        for _, array in chosen
        if array.name not in fields and _has_channels_first(array)
    ]
    return scan


def _has_channels_first(array: StoredArray) -> bool:
    """Return whether rows look like images of uint8 whose first side counts the channels."""
    shape = array.container.shape
    first = len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3)
    return array.dtype == "uint8" and first and min(shape[1:]) >= _LEAST_SIDE


def _row_shape(field: schema.Field, array: StoredArray) -> tuple[int, ...]:
    """Return the shape of a row as its field has it."""
    shape = array.container.shape
    if field.kind == "label":
        return ()
    return (*shape, 1) if field.kind == "image" and len(shape) == 2 else shape


class ArrayItems(LazyItems):
    """The rows of arrays that belong together."""

    def __init__(self, name: str, arrays: Sequence[StoredArray]) -> None:
        """Take the source's name, and the arrays in the order of the fields."""
        super().__init__([arrays[0].rows])
        self._name = name
        self._columns = [(array.offset, array.row_bytes) for array in arrays]
        self._row_bytes = sum(row_bytes for _, row_bytes in self._columns)

    def make(self, container: int, number: int) -> Item:
        """Return the item of a row."""
        places = tuple(
            Extract(place, offset + number * row_bytes, row_bytes)
            for place, (offset, row_bytes) in enumerate(self._columns)
        )
        return Item(f"{self._name}[{number}]", self._row_bytes, places)


@dataclass(frozen=True)
class _Raw:
    """The user's description of a file of plain bytes."""

    kind: str
    dtype: str
    shape: tuple[int, ...]


def _open(source: Path, root: Path, fields: dict[str, str]) -> list[StoredArray]:
    """Open all arrays; renames entries of `fields` for files of plain bytes to their arrays."""
    if not source.exists():
        raise UsageError(f"{source} does not exist; check the path")
    if source.suffix.lower() == NPZ and source.is_file():
        return open_npz(root, source.name, _ignored(fields))
    if source.is_file():
        return [open_npy(root, source.name)]
    found = [
        open_npy(root, path.name)
        for path in sorted(source.glob(f"*{NPY}"))
        if path.stem not in _ignored(fields)
    ]
    for name in [name for name in fields if (root / name).is_file()]:
        raw = _raw(name, fields.pop(name))
        found.append(open_raw(root, name, raw.dtype, raw.shape))
        fields[found[-1].name] = raw.kind
    if not found:
        raise UsageError(
            f"{source} has no {NPY} file; for files of plain bytes use --field FILE=KIND[SHAPE]"
        )
    return found


def is_array_kind(text: str) -> bool:
    """Return whether an array, or a file of plain bytes, can have this KIND."""
    return text in _KINDS or _is_row_form(text)


def no_array_kind(name: str, text: str) -> UsageError:
    """Return the error for a KIND that neither can have."""
    return UsageError(
        f"--field {name}={text}: expected one of {', '.join(_KINDS)}, or, for a file of plain "
        f"bytes, the form of a row, such as {_ROW_FORMS}, got {text!r}"
    )


def _is_row_form(text: str) -> bool:
    match = _RAW.fullmatch(text)
    return match is not None and (match[1] in _RAW_DTYPES or match[1] in ITEM_BYTES)


def _ignored(fields: dict[str, str]) -> frozenset[str]:
    return frozenset(name for name, kind in fields.items() if kind == IGNORE)


def _raw(name: str, text: str) -> _Raw:
    match = _RAW.fullmatch(text)
    if match is None or not _is_row_form(text):
        raise UsageError(f"--field {name}={text}: expected the form of a row, such as {_ROW_FORMS}")
    kind = match[1]
    shape = tuple(int(side) for side in (match[2] or "").split(",") if side)
    dtype = _RAW_DTYPES.get(kind, kind)
    return _Raw(kind if kind in _RAW_DTYPES else "array", dtype, shape)


def _of_split(arrays: list[StoredArray], split: str, fields: dict[str, str]) -> list[StoredArray]:
    """Return the arrays of a split, under their names without it."""
    word = re.compile(rf"(^|_){re.escape(split)}(_|$)")
    found = []
    for array in arrays:
        if word.search(array.name):
            name = word.sub(lambda hit: "_" if hit[1] and hit[2] else "", array.name) or array.name
            if array.name in fields:
                fields[name] = fields[array.name]
            found.append(replace(array, name=name))
    if not found:
        raise UsageError(f"--split {split}: no array has it in its name; the arrays are "
                         f"{', '.join(array.name for array in arrays)}")  # fmt: skip
    return found


def _field(array: StoredArray, asked: str) -> schema.Field:
    """Return the field for an array.

    Raises:
        UsageError: it does not fit the requested kind.
    """
    kind = asked or _guess(array)
    dtype, shape = array.dtype, array.container.shape
    fits = {
        "image": dtype in PIXELS["image"] and _channels(shape) <= MAX_CHANNELS,
        "mask": is_mask_form(dtype, shape),
        "label": "int" in dtype and int(np.prod(shape)) == 1,
        "array": True,
        **{name: (dtype, shape[2:]) == ("float32", (count,)) for name, count in VECTORS.items()},
    }
    if kind not in fits:
        raise UsageError(
            f"--field {array.name}={kind}: expected one of {', '.join(_KINDS)}, got {kind!r}"
        )
    if not fits[kind]:
        raise UsageError(
            f"array {array.name!r} has dtype {dtype} and rows of shape {shape}, so it cannot be "
            f"{kind}: an image is {', '.join(PIXELS['image'])} of (h, w) or (h, w, 1 to 16), a "
            "mask integers or bools of (h, w), a label one integer, flow float32 of (h, w, 2), and "
            "normals float32 of (h, w, 3)"
        )
    if kind == "label":
        return schema.label("label" if array.name.lower() in _LABELS else _name(array.name))
    if kind == "image":
        name = "image" if array.name.lower() in _IMAGES else _name(array.name)
        return schema.image(name, "raw", dtype=dtype, channels=_channels(shape))
    if kind in VECTORS:
        return declare(kind if array.name == kind else _name(array.name), kind, array.name)
    if kind == "mask":
        return schema.mask(_name(array.name), "raw", dtype=MASK_DTYPES[dtype])
    return schema.array(_name(array.name), dtype, shape) if shape else schema.scalar(
        _name(array.name), dtype)  # fmt: skip


def _guess(array: StoredArray) -> str:
    shape = array.container.shape
    if array.dtype == "uint8" and len(shape) == 3 and shape[2] == 3:
        return "image"
    named = array.name.lower() in _IMAGES
    if array.dtype == "uint8" and len(shape) == 2 and named and min(shape) >= _LEAST_SIDE:
        return "image"
    if is_mask_form(array.dtype, shape) and _MASK.search(array.name):
        return "mask"
    if "int" in array.dtype and shape in ((), (1,)) and array.name.lower() in _LABELS:
        return "label"
    return "array"


def _channels(shape: tuple[int, ...]) -> int:
    """Return the channels of an image; more than any has if it cannot be one."""
    if len(shape) == 2:
        return 1
    return shape[2] if len(shape) == 3 and shape[2] else MAX_CHANNELS + 1


def _name(text: str) -> str:
    return field_name(text.removesuffix("s") or text)


def _check(source: Path, chosen: Sequence[tuple[schema.Field, StoredArray]]) -> None:
    if not chosen:
        raise UsageError(f"{source}: no array is left as a field; ignore fewer of them")
    names: dict[str, str] = {}
    for field, array in chosen:
        if field.name in names:
            raise UsageError(
                f"arrays {names[field.name]!r} and {array.name!r} both give the field "
                f"{field.name!r}; rename one, or leave it out with --field {array.name}={IGNORE}"
            )
        names[field.name] = array.name
    if len({array.rows for _, array in chosen}) > 1:
        found = ", ".join(f"{array.name} {array.rows}" for _, array in chosen)
        raise UsageError(
            f"{source}: arrays differ in their number of rows: {found}; leave some out with "
            f"--field NAME={IGNORE}, or name a split that is part of the names, as in --split train"
        )
