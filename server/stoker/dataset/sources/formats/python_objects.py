"""Python objects with rows by number, such as a `torch.utils.data.Dataset`: `module:attribute`.

The attribute is the object, or a class or function that returns it when called without arguments.
Its module is searched in the working directory and in Python's path. It is the user's own code,
imported by the packing process and by each worker.

A row is a dict, or (image, label). The fields are those that the object declares as `fields` (made
by `stoker.dataset.schema`), or those of the first row; a list that is empty there is looked up in
later rows. Names of classes come from its `classes`. A row must be the same each time it is read.
Changes of the data cannot be detected here, so finished work is kept for a later run only if the
object declares a `fingerprint`, which is text.
"""

import contextlib
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.dataset.format import schema
from stoker.dataset.format.cells import FieldError, make_cells
from stoker.dataset.format.optional_fields import fill_absent, with_presence
from stoker.dataset.format.source_item import ContainerRow, Item
from stoker.dataset.images.inspection import Scratches
from stoker.dataset.sources.common.lazy_items import LazyItems
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.formats.object_fields import fields_of, is_empty
from stoker.dataset.sources.formats.object_reader import (
    BadRowError,
    as_fields,
    load_object,
    row_of,
)
from stoker.protocol.errors import UsageError

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_NUMBER_BYTES = 8
_MOST_LOOKED_AT = 1000


def is_object(source: Path) -> bool:
    """Return whether this has the form `module:attribute`."""
    return _NAME.fullmatch(str(source)) is not None and not source.exists()


def scan_objects(source: Path, request: Request) -> SourceScan:
    """Scan a Python object.

    Args:
        source: `module:attribute`.
        request: its fields are name -> KIND of `sources.declare`, to override the first row.

    Raises:
        UsageError: it cannot be imported, has no rows by number, returns different rows each time,
            or its fields cannot be determined.
    """
    name, folder = str(source), Path.cwd()
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"expected module:attribute, such as my_data:Photos, got {name!r}")
    found = load_object(name, str(folder))
    if not hasattr(found, "__len__") or not hasattr(found, "__getitem__") or len(found) < 1:
        raise UsageError(
            f"{name} is a {type(found).__name__}: expected an object with rows by number "
            "(__len__ and __getitem__), at least one"
        )
    try:
        first = _first(found)
    except BadRowError as error:
        raise UsageError(f"{name}[0]: {error}; it is needed for the fields") from None
    fields = fields_of(name, found, first, request.fields)
    _check_same(name, found, fields)
    items = ObjectItems(name, len(found), sum(_size_bytes(value) for value in first.values()))
    declared = getattr(found, "fingerprint", None)
    settings = {
        "object": name,
        "folder": str(folder),
        "fingerprint": secrets.token_hex(16) if declared is None else str(declared),
    }
    if getattr(found, "fields", None) is None:
        settings["known"] = "\n".join(sorted({*map(str, first), *request.fields}))
    return SourceScan("python", folder, fields, items, (), "python", settings, aligned=False)


class ObjectItems(LazyItems):
    """The rows of an object."""

    def __init__(self, name: str, rows: int, row_bytes: int) -> None:
        """Take its name, its number of rows, and their approximate size."""
        super().__init__([rows])
        self._name, self._row_bytes = name, row_bytes

    def make(self, container: int, number: int) -> Item:
        """Return the item of a row."""
        return Item(f"{self._name}[{number}]", self._row_bytes, (ContainerRow(container, number),))


def _first(found: Any) -> Mapping[str, Any]:
    """Return the first row; an empty list in it is replaced by the first one that is not empty.

    An empty list has no dtype.

    Raises:
        BadRowError: the first row cannot be read.
    """
    row = dict(row_of(found, 0))
    empty = {key for key, value in row.items() if is_empty(value)}
    for number in range(1, min(len(found), _MOST_LOOKED_AT) if empty else 0):
        with contextlib.suppress(BadRowError):  # listed when it is packed
            other = row_of(found, number)
            decided = {key for key in empty if key in other and not is_empty(other[key])}
            row |= {key: other[key] for key in decided}
            empty -= decided
        if not empty:
            break
    return row


def _check_same(name: str, found: Any, fields: tuple[schema.Field, ...]) -> None:
    """Raise for an object whose first row differs each time; other faults are found later."""
    whole = with_presence(fields)
    try:
        one, two = (
            make_cells(whole, fill_absent(whole, as_fields(row_of(found, 0), fields)), Scratches())
            for _ in range(2)
        )
    except (BadRowError, FieldError):
        return
    for field in fields:
        if one[field.name].data != two[field.name].data:
            raise UsageError(
                f"{name}[0]: its {field.name!r} differs each time it is read; leave randomness to "
                "the pipeline"
            )


def _size_bytes(value: Any) -> int:
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Path):
        return value.stat().st_size
    if isinstance(value, Mapping):
        return sum(_size_bytes(part) for part in value.values())
    return int(getattr(value, "nbytes", _NUMBER_BYTES))
