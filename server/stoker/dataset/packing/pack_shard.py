"""Packs one file of a dataset: reads its items, checks each, writes the Arrow file and its record.

Runs in a worker process. The output depends on the items alone. An item that cannot be stored is
left out and listed in the record; the packing process decides what follows. A later run resumes
from the record (`00007.json` in the work folder, renamed into place after the file).
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from stoker.dataset.format.cells import Cell, FieldError, make_cells
from stoker.dataset.format.fields import Field
from stoker.dataset.format.image_conversion import Converted, convert
from stoker.dataset.format.index_cells import index_cells
from stoker.dataset.format.optional_fields import declared, fill_absent, kind_of
from stoker.dataset.format.source_item import Item
from stoker.dataset.images.inspection import Scratches
from stoker.dataset.packing.build import disk_errors, memory_errors
from stoker.dataset.packing.item_listing import read_listing
from stoker.dataset.packing.shard import ShardRecord, ShardWriter
from stoker.dataset.sources.common.readers import BadItemError, Locator, Reader, file_of
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.open_reader import open_reader
from stoker.protocol.analysis import analyzed


class ShardJob(msgspec.Struct, frozen=True, kw_only=True):
    """The work of packing one file.

    Attributes:
        index: number of the file.
        recipe: how to pack.
        dest, work: folders of the dataset and of temporary files.
        listing: file of items, see `stoker.dataset.packing.item_listing`.
        offset: where this job's items begin in it, in bytes.
        count: number of items.
        size_bytes: the cost of reading them, in bytes.
        key: digest of everything that the result depends on.
    """

    index: int
    recipe: Recipe
    dest: str
    work: str
    listing: str
    offset: int
    count: int
    size_bytes: int
    key: str


class KeptRecord(msgspec.Struct, frozen=True):
    """A shard's record in the work folder, with the key of its input."""

    key: str
    record: ShardRecord


def pack_shard(argument: Any, report: Any) -> Any:
    """Pack one file; takes a `ShardJob` and returns a `ShardRecord`, both in JSON form.

    Raises:
        ResourceError: the disk is full, or the memory does not suffice.
        DatasetError: the file cannot be written for another reason.
    """
    job = msgspec.convert(argument, analyzed(ShardJob))
    with disk_errors(Path(job.dest)), memory_errors(job.recipe.source):
        record = _pack(job, report)
        keep_record(Path(job.work), job.index, KeptRecord(job.key, record))
    return msgspec.to_builtins(record)


def keep_record(work: Path, index: int, kept: KeptRecord) -> None:
    """Write a record into the work folder atomically."""
    temporary = work / f"{index:05d}.{os.getpid()}.record"
    temporary.write_bytes(msgspec.json.encode(kept))
    os.replace(temporary, work / f"{index:05d}.json")


def _pack(job: ShardJob, report: Any) -> ShardRecord:
    recipe, scratch = job.recipe, Scratches()
    with (
        open_reader(_of_source(recipe)) as reader,
        ShardWriter(Path(job.dest), Path(job.work), recipe.schema, recipe.max_bad) as writer,
    ):
        for item in read_listing(Path(job.listing), job.offset, job.count):
            try:
                cells = _cells(recipe, item, reader, scratch)
            except BadItemError as bad:
                writer.add_bad(bad.path, bad.reason)
            else:
                writer.add(cells, item.name)
            report(1, item.size_bytes)
        return writer.finish(job.index)


def _of_source(recipe: Recipe) -> Recipe:
    """Return the recipe for a reader, which knows the declared fields alone."""
    schema = msgspec.structs.replace(recipe.schema, fields=declared(recipe.schema.fields))
    return msgspec.structs.replace(recipe, schema=schema)


def _cells(recipe: Recipe, item: Item, reader: Reader, scratch: Scratches) -> dict[str, Cell]:
    """Return the cells of an item."""
    fields, converted = recipe.schema.fields, Converted({})
    try:
        if recipe.in_place:
            assert isinstance(reader, Locator)
            cells = index_cells(fields, reader.locate(item), reader.extract, scratch)
        else:
            converted = Converted(fill_absent(fields, reader.read(item)))
            if recipe.conversion.is_any:
                converted = convert(fields, converted.values, recipe.conversion, scratch)
                _check_sizes(recipe, item, converted.sizes)
            cells = make_cells(fields, converted.values, scratch)
    except FieldError as error:
        file = file_of(item, fields, error.field)
        found = (item.name, str(error)) if file is None else (file, error.reason)
        raise BadItemError(*found) from None
    for name, notes in converted.notes.items():
        cells[name] = replace(cells[name], notes=(*notes, *cells[name].notes))
    if not recipe.conversion.is_any:
        pictures = (field.name for field in fields if field.is_picture)
        sizes = {name: (cells[name].items, cells[name].width) for name in pictures}
        _check_sizes(recipe, item, sizes)
    return cells


def _turned(size: tuple[int, int], other: tuple[int, int]) -> str:
    """Return what to do about sides that are exchanged, as in a photo that EXIF turns."""
    if size != other[::-1] or size == other:
        return ""
    return (
        "; if EXIF turns the photo, and the other was made on the pixels as stored, pack with "
        "--orientation keep"
    )


def _check_sizes(recipe: Recipe, item: Item, sizes: Mapping[str, tuple[int, int]]) -> None:
    """Check the sizes (height, width) of an item's images, after orientation if applied."""
    fields = recipe.schema.fields
    pictures = [field for field in fields if field.is_picture]
    if not pictures:
        return
    first, others = pictures[0], pictures[1:]
    size = sizes[first.name]
    if item.size is not None and item.size != size:
        raise BadItemError(
            item.name,
            f"{_seen(first, size)}, but its annotations are for {item.size[0]}x{item.size[1]}; "
            f"they must agree{_turned(size, item.size)}",
        )
    for field in others:
        height, width = sizes[field.name]
        alike = (recipe.aligned or field.kind == "mask") and not field.relative
        if (height, width) != size and alike:
            other = file_of(item, fields, field.name) or f"field {field.name!r}"
            what = f"{other} has {height}x{width}{_turned(size, (height, width))}"
            raise BadItemError(item.name, size_fault(first, size, field, what))


def size_fault(
    first: Field, size: tuple[int, int], field: Field, what: str, option: str = "--field NAME="
) -> str:
    """Return why an image or mask must have the size of the first one of its sample.

    Args:
        first: the field of the first one.
        size: its (height, width).
        field: the other's field.
        what: the other's name and size, in words.
        option: of the command line, to which its kind is appended.
    """
    return (
        f"{_seen(first, size)}, but {what}; if that is meant, declare it with "
        f"{option}{kind_of(field)},relative, or schema.relative(...) in a schema, and call ops "
        "with relative=True"
    )


def _seen(first: Field, size: tuple[int, int]) -> str:
    how = "as stored" if first.keeps_orientation else "upright"
    return f"it has {size[0]}x{size[1]} pixels (height x width, {how})"
