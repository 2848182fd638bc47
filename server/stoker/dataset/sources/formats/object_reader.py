"""Read rows of a Python object in a worker; each process makes the object once."""

import functools
import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import CLASS_PARTS, Field
from stoker.dataset.format.optional_fields import how_to_declare, kind_of
from stoker.dataset.format.source_item import ContainerRow, Item
from stoker.dataset.limits import CodecError, check_value
from stoker.dataset.sources.common.readers import BadItemError
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.formats.object_fields import is_text
from stoker.protocol.errors import UsageError
from stoker.protocol.importing import add_folders, hint

_PAIR = ("image", "label")


class BadRowError(Exception):
    """A row cannot be read, or has the wrong form."""


class ObjectReader:
    """Reads items that are a `ContainerRow` each; see `readers.Reader`."""

    def __init__(self, recipe: Recipe) -> None:
        """Prepare for a recipe, whose settings name the object and its folder."""
        settings = recipe.settings
        self._found = load_object(settings["object"], settings["folder"])
        self._fields = recipe.schema.fields
        self._known = frozenset(settings["known"].split("\n")) if "known" in settings else None

    def read(self, item: Item) -> dict[str, Value | None]:
        """Return a value for each field.

        Raises:
            BadItemError: the object does not return the row.
        """
        (place,) = item.places
        assert isinstance(place, ContainerRow)
        try:
            row = row_of(self._found, place.number)
            _check_known(row, self._known)
            return as_fields(row, self._fields)
        except BadRowError as error:
            raise BadItemError(item.name, str(error)) from None

    def close(self) -> None:
        """Do nothing: the object is used for later files, too."""


@functools.lru_cache(maxsize=1)
def load_object(name: str, folder: str) -> Any:
    """Import `module:attribute`; a class or function is called.

    Args:
        name: the name.
        folder: the folder that is searched after Python's own and installed modules.

    Raises:
        UsageError: it cannot be imported, or its call fails.
    """
    module, _, path = name.partition(":")
    add_folders([folder])
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found() if inspect.isclass(found) or inspect.isroutine(found) else found
    except Exception as error:  # the user's code may raise anything
        raise UsageError(
            f"{name}: {type(error).__name__}: {error}; its module is searched in Python's path "
            f"and in {folder}, and a class or function is called without arguments{hint(module)}"
        ) from error


def row_of(found: Any, number: int) -> Mapping[str, Any]:
    """Return a row as a dict.

    Raises:
        BadRowError: the object raises, or returns neither a dict nor a pair.
    """
    try:
        row = found[number]
    except Exception as error:  # the user's code may raise anything
        raise BadRowError(f"{type(error).__name__}: {error}") from None
    if isinstance(row, tuple | list) and len(row) == len(_PAIR):
        return dict(zip(_PAIR, row, strict=True))
    if not isinstance(row, Mapping) or not row:
        raise BadRowError(
            f"expected a dict of fields, or an image and its label, got a {type(row).__name__}"
        )
    return row


def _check_known(row: Mapping[str, Any], known: frozenset[str] | None) -> None:
    """Raise BadRowError for a field that the first row, which decides the fields, lacks."""
    for name in row:
        if known is not None and name not in known:
            raise BadRowError(
                f"its row has {name!r}, which the first row lacks; give all rows the same fields, "
                f"leave it out with --field {name}=ignore, or declare a fill, as in "
                f"{how_to_declare(name, 'mask')}"
            )


def as_fields(row: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Value | None]:
    """Return the values of a row's fields, in the forms that `cells` accepts; None if absent.

    Raises:
        BadRowError: a field is missing, or a file cannot be read.
    """
    missing = [f for f in fields if row.get(f.name) is None and not f.optional]
    if missing:
        remedy = ", ".join(how_to_declare(field.name, kind_of(field)) for field in missing)
        raise BadRowError(
            f"its row has no {', '.join(field.name for field in missing)}, only "
            f"{', '.join(name for name, value in row.items() if value is not None)}; if samples "
            f"may lack it, declare a fill: {remedy}"
        )
    found = {field.name: (field, row.get(field.name)) for field in fields}
    return {
        name: None if value is None else _value(field, value)
        for name, (field, value) in found.items()
    }


def _class_number(field: Field, name: str) -> int:
    if field.classes is None or name not in field.classes:
        raise BadRowError(
            f"{field.name}: expected one of {', '.join(field.classes or ()) or 'no text'}, "
            f"got {name!r}"
        )
    return field.classes.index(name)


def _value(field: Field, value: Any) -> Value:
    if isinstance(value, Path):
        try:
            check_value(value.stat().st_size)
            return value.read_bytes()
        except OSError as error:
            raise BadRowError(f"cannot read {value}: {error.strerror}") from None
        except CodecError as error:
            raise BadRowError(f"{value}: {error}") from None
    if isinstance(value, str):
        return _class_number(field, value) if field.kind == "label" else value.encode()
    part = CLASS_PARTS.get(field.kind)
    if isinstance(value, Mapping) and part is not None and is_text(value.get(part)):
        return {**value, part: [_class_number(field, str(name)) for name in value[part]]}
    if isinstance(value, Image.Image):
        return np.asarray(value if field.kind == "mask" else value.convert("RGB"))
    if isinstance(value, bytes | bytearray | memoryview | Mapping):
        return value
    return np.asarray(value)
