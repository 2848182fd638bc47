"""Reads rows of a Python object in a worker; the object is made once for each process."""

import functools
import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from stoker.dataset.format.cells import Value
from stoker.dataset.format.item import Item, Record
from stoker.dataset.format.schema import Field
from stoker.dataset.sources.common.readers import BadItemError
from stoker.dataset.sources.common.recipe import Recipe
from stoker.protocol.errors import UsageError

_PAIR = ("image", "label")


class BadRowError(Exception):
    """A row cannot be had, or is no row."""


class ObjectReader:
    """Reads items that are a `Record` each; see `readers.Reader`."""

    def __init__(self, recipe: Recipe) -> None:
        """Read by a recipe, whose settings name the object and the folder to look in."""
        settings = recipe.settings
        self._found = load_object(settings["object"], settings["folder"])
        self._fields = recipe.schema.fields

    def read(self, item: Item) -> dict[str, Value]:
        """Return a value for each field.

        Raises:
            BadItemError: the object does not give the row.
        """
        (place,) = item.places
        assert isinstance(place, Record)
        try:
            return as_fields(row_of(self._found, place.number), self._fields)
        except BadRowError as error:
            raise BadItemError(item.name, str(error)) from None

    def close(self) -> None:
        """Nothing is open: the object serves later files, too."""


@functools.lru_cache(maxsize=1)
def load_object(name: str, folder: str) -> Any:
    """Return what `module:attribute` names; a class or function is called.

    Args:
        name: the name.
        folder: where modules are looked for, before all other places.

    Raises:
        UsageError: it cannot be imported, or fails when it is called.
    """
    module, _, path = name.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found() if inspect.isclass(found) or inspect.isroutine(found) else found
    except Exception as error:  # whatever the user's code raises
        raise UsageError(
            f"{name}: {type(error).__name__}: {error}; its module is looked for in {folder} and "
            "where Python looks, and a class or function is called without arguments"
        ) from error


def row_of(found: Any, number: int) -> Mapping[str, Any]:
    """Return a row as a dict.

    Raises:
        BadRowError: the object raises, or gives neither a dict nor a pair.
    """
    try:
        row = found[number]
    except Exception as error:  # whatever the user's code raises
        raise BadRowError(f"{type(error).__name__}: {error}") from None
    if isinstance(row, tuple | list) and len(row) == len(_PAIR):
        return dict(zip(_PAIR, row, strict=True))
    if not isinstance(row, Mapping) or not row:
        raise BadRowError(
            f"expected a dict of fields, or a picture and its label, got a {type(row).__name__}"
        )
    return row


def as_fields(row: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Value]:
    """Return the values of a row's fields, in the forms that `cells` takes.

    Raises:
        BadRowError: a field is missing, or a file cannot be read.
    """
    missing = [field.name for field in fields if field.name not in row]
    if missing:
        raise BadRowError(f"it has no {', '.join(missing)}, only {', '.join(map(str, row))}")
    return {field.name: _value(field, row[field.name]) for field in fields}


def _value(field: Field, value: Any) -> Value:
    if isinstance(value, Path):
        try:
            return value.read_bytes()
        except OSError as error:
            raise BadRowError(f"cannot read {value}: {error.strerror}") from None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Image.Image):
        return np.asarray(value if field.kind == "mask" else value.convert("RGB"))
    if isinstance(value, bytes | bytearray | memoryview | Mapping):
        return value
    return np.asarray(value)
