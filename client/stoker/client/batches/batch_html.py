"""A batch as notebooks show it: the first rows of its pictures, and a table of its entries."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import numpy as np

from stoker.protocol.output_forms import RaggedArray, described
from stoker.protocol.pictures import figures, heading, table

MOST_ROWS: Final = 8
MOST_CAPTION: Final = 3
"""Entries with one number a row that a caption has."""


def batch_html(title: str, entries: Mapping[str, Any]) -> str:
    """Return HTML of a batch.

    Args:
        title: what it is.
        entries: its entries; arrays on a device are copied, `MOST_ROWS` rows of each.
    """
    parts = [heading(title)]
    captions = _captions(entries)
    for name, value in entries.items():
        shown = figures(
            (f"{name}: {captions[number]}" if captions[number] else f"{name}[{number}]", row)
            for number, row in enumerate(_rows(value))
        )
        if shown:
            parts.append(f"<div>{shown}</div>")
    parts.append(table(("entry", "value"), [(n, described(v)) for n, v in entries.items()]))
    return "".join(parts)


def _captions(entries: Mapping[str, Any]) -> list[str]:
    """Return what is said of each of the first rows: its entries that are one number."""
    said: list[list[str]] = [[] for _ in range(MOST_ROWS)]
    for name, value in entries.items():
        numbers = [row for row in _rows(value) if np.ndim(row) == 0]
        for texts, number in zip(said, numbers, strict=False):
            if len(texts) < MOST_CAPTION and name not in ("requested", "valid"):
                texts.append(f"{name} {number}")
    return [", ".join(texts) for texts in said]


def _rows(value: Any) -> Iterator[Any]:
    """Yield the first rows of an entry as NumPy arrays; nothing if it has no rows."""
    if isinstance(value, list | RaggedArray):
        yield from (_as_numpy(row) for row in islice(value, MOST_ROWS))
    elif getattr(value, "ndim", 0):
        yield from _as_numpy(value[:MOST_ROWS])


def _as_numpy(value: Any) -> Any:
    """Return a NumPy array of an array or a tensor on any device."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    return (tensor if "bfloat16" not in str(tensor.dtype) else tensor.float()).numpy()
