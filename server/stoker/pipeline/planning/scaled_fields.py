"""Names of the inputs that are decoded at a fraction of their size: `ops ... decode="scaled"`.

Such a field is two inputs of a plan. The first has the field's name and its size, on which all
decisions depend; its pixels are never read, and are undefined. The second has this module's name;
its pixels are the reduced image, or the whole one if it cannot be reduced, and only the kernel of
the op reads it. Names of fields are identifiers, so no field has such a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SUFFIX: Final = " (scaled)"


def scaled_name(field: str) -> str:
    """Return the name of the input with the pixels of a field that is decoded at a fraction."""
    return field + _SUFFIX


def stored_field(name: str) -> str:
    """Return the dataset's field of an input."""
    return name.removesuffix(_SUFFIX)


def is_scaled(name: str) -> bool:
    """Return whether an input is a field that is decoded at a fraction."""
    return name.endswith(_SUFFIX)


def stored_fields(names: Iterable[str]) -> tuple[str, ...]:
    """Return the dataset's fields of inputs, each once."""
    return tuple(dict.fromkeys(map(stored_field, names)))


def only_sizes(names: Iterable[str]) -> frozenset[str]:
    """Return the inputs of which only the sizes are used, because others have their pixels."""
    return frozenset(map(stored_field, filter(is_scaled, names)))
