"""The form of an unpacked dataset: files that people and other tools read, and that pack again.

A folder holds `stoker-unpacked.json` (this form's version, and the fields as they were declared),
`samples.jsonl` (one JSON object a line: the value of each field of a sample, or the path of its
file) and the files, each in a folder with the name of its field. Images, masks, arrays and bytes
are files. Labels, numbers, boxes and keypoints are in the line; a label that has a name is its
name, a float that JSON lacks is "nan", "inf" or "-inf", and an absent value is null.

Nothing in such a folder is trusted: people edit it, and it may come from anywhere.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import UNSET

from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import SOURCE, Field, Schema, picture_field
from stoker.dataset.format.optional_fields import declared
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError, VersionError

HEADER: Final = "stoker-unpacked.json"
SAMPLES: Final = "samples.jsonl"
WORK: Final = ".unpacking"
"""Folder that is there until all files are."""
SOURCE_KEY: Final = SOURCE
"""Key of a line for the name of the sample; no field is called like that."""
FORMAT: Final = "stoker-unpacked"
VERSION: Final = 1
MAX_HEADER_BYTES: Final = 2**26
_IN_FILES: Final = ("image", "mask", "array", "bytes")
_FILES: Final = ("jpeg", "png", "encoded", "planes")


class UnpackedHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `stoker-unpacked.json`.

    Attributes:
        format, version: of this form.
        fingerprint: of the dataset that was unpacked, for people.
        fields: as in a manifest, without what follows from samples.
    """

    format: str = FORMAT
    version: int = VERSION
    fingerprint: str
    fields: tuple[Field, ...]


def header_of(fingerprint: str, fields: tuple[Field, ...]) -> bytes:
    """Return the header of a dataset's fields as the bytes of its file."""
    header = UnpackedHeader(fingerprint=fingerprint, fields=tuple(map(_bare, declared(fields))))
    return msgspec.json.format(msgspec.json.encode(header), indent=1) + b"\n"


def read_header(folder: Path) -> UnpackedHeader:
    """Read a header; its fields are complete again, in the encodings of a new source.

    Raises:
        UsageError: it cannot be read, is damaged, or declares impossible fields.
        VersionError: it was written by a newer Stoker.
    """
    path = folder / HEADER
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_HEADER_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; if `stoker unpack` was interrupted, run the "
            "same command again"
        ) from None
    try:
        if len(data) > MAX_HEADER_BYTES:
            raise ValueError(f"it is larger than {MAX_HEADER_BYTES} bytes")
        header = msgspec.json.decode(data, type=analyzed(UnpackedHeader))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}; unpack the dataset again") from None
    if header.format != FORMAT:
        raise UsageError(f"{path}: expected format {FORMAT!r}, got {header.format!r}")
    if header.version != VERSION:
        raise VersionError(
            f"{path} has version {header.version}, but this Stoker reads version {VERSION}; update "
            "Stoker, or unpack the dataset with this one",
            found=header.version,
            supported=VERSION,
        )
    fields = tuple(_whole(field) for field in header.fields)
    check_schema(Schema(fields))
    return msgspec.structs.replace(header, fields=fields)


def is_in_file(field: Field) -> bool:
    """Return whether the values of a field are files of their own."""
    return field.kind in _IN_FILES


def line_value(field: Field, value: np.ndarray | np.generic) -> Any:
    """Return a label or number as JSON has it."""
    number = value.item()
    names = field.classes or ()
    if field.kind == "label" and 0 <= number < len(names) and names.count(names[number]) == 1:
        return names[number]
    return _plain(np.asarray(value))


def line_items(columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the columns of boxes or keypoints as JSON has them."""
    return {name: _plain(column) for name, column in columns.items()}


def _plain(values: np.ndarray) -> Any:
    """Return numbers as lists; floats that JSON lacks are text."""
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return values.tolist()
    if values.ndim:
        return [_plain(part) for part in values]
    return str(values.item())


def _bare(field: Field) -> Field:
    """Return a field without what follows from its kind, its encoding or the samples."""
    shape = (None, None, *field.shape[2:]) if field.is_picture else field.shape
    return msgspec.structs.replace(field, side=(), bound=(), shape=shape, referenced=UNSET)


def _whole(field: Field) -> Field:
    """Return a field with its side columns, in the encoding in which its files come."""
    if not field.is_picture:
        return msgspec.structs.replace(field, side=(), bound=())
    encoding = field.encoding
    if encoding in _FILES or (field.kind == "mask" and field.fits_files and encoding == "bands"):
        encoding = "encoded"
    side = picture_field(field.name, field.kind, encoding).side
    return msgspec.structs.replace(field, side=side, bound=(), encoding=encoding)
