"""A dataset described by plain data, which `stoker ls` shows and `--json` prints."""

from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from stoker.dataset.format.fields import Field
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.protocol.errors import SampleError

_SHOWN = 8


def describe(dataset: Dataset, samples: int) -> dict[str, Any]:
    """Return fields, statistics, files and the first samples, JSON-serializable."""
    manifest = dataset.manifest
    shown = range(min(samples, len(dataset)))
    return {
        "path": str(dataset.path),
        "format_version": manifest.version,
        "writer": manifest.writer,
        "fingerprint": manifest.fingerprint,
        "rows": manifest.rows,
        "files": sum(len(file.parts) for file in manifest.files),
        "size_bytes": manifest.size_bytes,
        "splits": {}
        if manifest.splits is UNSET
        else {name: split.rows for name, split in manifest.splits.names.items()},
        "fields": [_field(dataset, field) for field in manifest.schema.fields],
        "notes": msgspec.to_builtins(manifest.statistics.notes),
        "skipped": manifest.statistics.skipped,
        "skipped_examples": msgspec.to_builtins(manifest.statistics.skipped_examples),
        "samples": [_sample(dataset, number) for number in shown],
    }


def _field(dataset: Dataset, field: Field) -> dict[str, Any]:
    seen = dataset.manifest.statistics.fields.get(field.name)
    data: dict[str, Any] = msgspec.to_builtins(field)
    data["statistics"] = msgspec.to_builtins(seen)
    return data


def _sample(dataset: Dataset, number: int) -> dict[str, Any]:
    values = {field.name: _value(dataset, field, number) for field in dataset.schema.fields}
    return {"id": number, "source": dataset.source(number), "fields": values}


def _value(dataset: Dataset, field: Field, number: int) -> str | int | float | bool:
    try:
        value = dataset.read(field.name, number)
        if field.is_picture:
            height, width = dataset.size(field.name, number)
            size_bytes = value.nbytes
            return f"{height}x{width}, {size_bytes} bytes"
    except SampleError as error:
        return f"damaged: {error.message}"
    if field.kind == "label" and field.classes is not None:
        named = 0 <= int(value) < len(field.classes)
        return f"{value} ({field.classes[int(value)]})" if named else f"{value}"
    if isinstance(value, memoryview):
        return f"{value.nbytes} bytes"
    if value.ndim == 0:
        plain = value.item()
        assert isinstance(plain, int | float | bool)
        return plain
    assert isinstance(value, np.ndarray)
    shown = f"{value.dtype} {value.shape}: {', '.join(map(str, value.reshape(-1)[:_SHOWN]))}"
    return shown if field.items is UNSET else f"{len(value)} {field.kind}"
