"""The rows of a batch that are not padding, for loops that want a short last batch."""

from collections.abc import Mapping
from typing import Any

from stoker.protocol.output_forms import RaggedArray
from stoker.protocol.ragged import Ragged


def real_rows(arrays: Mapping[str, Any]) -> int:
    """Return the number of rows before the padding, which is at the end of a batch."""
    return int((arrays["requested"] != -1).sum())


def first_rows(arrays: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Return the first rows of every output, without copies."""
    return {name: _first(value, rows) for name, value in arrays.items()}


def _first(value: Any, rows: int) -> Any:
    if isinstance(value, Mapping):
        return first_rows(value, rows)
    if isinstance(value, Ragged):
        last = int(value.offsets[rows])
        fields = {name: array[:last] for name, array in value.fields.items()}
        return Ragged(value.format, value.values[:last], value.offsets[: rows + 1], fields)
    if isinstance(value, RaggedArray):
        last = int(value.offsets[rows])
        return RaggedArray(value.values[:last], value.offsets[: rows + 1], value.sizes[:rows])
    return value[:rows]
