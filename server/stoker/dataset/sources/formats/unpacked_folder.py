"""A folder that `stoker unpack` wrote: the samples of a dataset, with its fields.

The order is that of the lines of `samples.jsonl`. Lines and files may be added, edited and removed;
a line that does not fit the fields is a bad sample. See `stoker.dataset.format.unpacked_form`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import Given, Item, ValueSource, WholeFile
from stoker.dataset.format.unpacked_form import (
    HEADER,
    SAMPLES,
    SOURCE_KEY,
    WORK,
    is_in_file,
    read_header,
)
from stoker.dataset.limits import MAX_LINE
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import look_at
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError

_VALUE_BYTES = 8


def is_unpacked(source: Path) -> bool:
    """Return whether `stoker unpack` wrote a folder, or has begun to."""
    return (source / HEADER).is_file() or (source / WORK).is_dir()


def scan_unpacked(source: Path, request: Request) -> SourceScan:
    """Scan a folder that `stoker unpack` wrote.

    Raises:
        UsageError: it is not complete, or its header cannot be read.
        VersionError: a newer Stoker wrote it.
    """
    if (source / WORK).is_dir():
        raise UsageError(
            f"{source} was not unpacked to the end; run the same `stoker unpack` again to continue"
        )
    fields = read_header(source).fields
    scan = SourceScan("unpacked", source, fields, [], reader="unpacked", aligned=False)
    items: list[Item] = []
    for number, line in _lines(source / SAMPLES):
        place = f"{SAMPLES}:{number}"
        try:
            items.append(_item(source, fields, line, place))
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            scan.bad.append((place, str(error)))
    if not items and not scan.bad:
        raise UsageError(f"{source / SAMPLES} has no samples")
    scan.items = items
    return scan


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line that is not blank."""
    try:
        with open(path, "rb") as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise UsageError(
                        f"{path}, line {number}: it has more than {MAX_LINE} bytes; check the ends "
                        "of lines"
                    )
                if line.strip():
                    yield number, line
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; unpack again") from None


def _item(root: Path, fields: tuple[Field, ...], line: bytes, place: str) -> Item:
    """Return the sample of a line.

    Raises:
        ValueError, OverflowError, RecursionError, msgspec.MsgspecError: it is not one.
    """
    values = msgspec.json.decode(line, type=analyzed(dict[str, Any]))
    name = values.pop(SOURCE_KEY, "")
    if not isinstance(name, str):
        raise ValueError(f"{SOURCE_KEY}: expected text, got {name!r}")
    names = [field.name for field in fields]
    if strange := next((key for key in values if key not in names), None):
        raise ValueError(f"expected the fields {', '.join(names)}, got {strange!r}")
    places = tuple(_place(root, field, values.get(field.name)) for field in fields)
    files = [place.file for place in places if isinstance(place, WholeFile)]
    size_bytes = sum(file.size_bytes for file in files) + _VALUE_BYTES * len(places)
    return Item(name or (files[0].path if files else place), size_bytes, places)


def _place(root: Path, field: Field, value: Any) -> ValueSource:
    if value is None and not field.optional:
        raise ValueError(f"field {field.name!r} is missing; only an optional field may be absent")
    if value is None or not is_in_file(field):
        msgspec.msgpack.encode(value)  # as in the listing, which has numbers of 64 bits
        return Given(value)
    if not isinstance(value, str):
        raise ValueError(f"field {field.name!r}: expected the path of a file, got {value!r}")
    return WholeFile(look_at(root / value, value))
