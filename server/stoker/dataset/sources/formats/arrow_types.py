"""The types of columns of Arrow and Parquet files: numbers, text, bytes, image files, nested lists.

pyarrow is imported when a type is looked at: while packing and indexing alone.
"""

from typing import Any

_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}
"""Types whose names differ between pyarrow and NumPy; pyarrow 18 needs pandas to convert."""


def _types() -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see the module

    return pa.types


def dtype_of(kind: Any) -> str:
    """Return the dtype of a number, "" for anything else."""
    types = _types()
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return ""
    return _FLOATS.get(str(kind), str(kind))


def is_integer(kind: Any) -> bool:
    """Return whether it is an integer of any size."""
    return bool(_types().is_integer(kind))


def is_text(kind: Any) -> bool:
    """Return whether it is text."""
    return bool(_types().is_string(kind) or _types().is_large_string(kind))


def is_bytes(kind: Any) -> bool:
    """Return whether it is text or bytes, which are stored alike."""
    return bool(is_text(kind) or _types().is_binary(kind) or _types().is_large_binary(kind))


def is_picture(kind: Any) -> bool:
    """Return whether it is a struct of `bytes` and `path`, as Hugging Face stores image files."""
    if not _types().is_struct(kind):
        return False
    names = [kind.field(number).name for number in range(kind.num_fields)]
    return sorted(names) == ["bytes", "path"] and is_bytes(kind.field(names.index("bytes")).type)


def without_dictionary(kind: Any) -> Any:
    """Return the type of the values of a dictionary; any other type is returned as it is."""
    return kind.value_type if _types().is_dictionary(kind) else kind


def sides_of(kind: Any) -> tuple[list[int | None], Any]:
    """Return the sides of nested lists, None where they vary, and the type of their elements."""
    types, sides = _types(), []
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        sides.append(getattr(kind, "list_size", None))
        kind = kind.value_type
    return sides, kind
