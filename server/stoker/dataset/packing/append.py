"""Adding samples to a packed dataset: its files stay, new ones follow after them.

Existing samples are recognized by name (the column `stoker.source`): a sample whose name is in the
dataset is left alone, even if it has changed since. The result equals packing everything at once in
this order: the existing samples, then the new ones in the order of their source. So its fingerprint
is that of packing at once if the new samples come after the old ones in the source, as with further
tar files; in a folder, new files are in between the old ones.

Fields must be stored as in the existing dataset. New classes of a label are appended to the
existing ones, and the source's numbers are changed to match.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

import msgspec
from msgspec import UNSET

from stoker.dataset.format.fields import SOURCE, Field
from stoker.dataset.format.manifest import FieldStatistics, Manifest
from stoker.dataset.format.optional_fields import declared
from stoker.dataset.format.source_item import Given, Item
from stoker.dataset.format.summary import FieldSummary, SideSummary, Summary
from stoker.dataset.packing.shard import ShardRecord
from stoker.dataset.reading.packed import open_folder
from stoker.protocol.errors import UsageError

_FILES = ("jpeg", "png", "encoded")


def next_number(manifest: Manifest) -> int:
    """Return the number of the next file of a dataset."""
    parts = [part for file in manifest.files for part in file.parts]
    return 1 + max(int(part.name.partition("-")[0]) for part in parts)


class Base:
    """A dataset that samples are added to.

    Attributes:
        manifest: its current manifest.
        names: names of its samples.
    """

    def __init__(self, folder: Path) -> None:
        """Read the dataset.

        Raises:
            DatasetError: it is missing or damaged.
            UsageError: its samples have no names, or are in the files of a source.
        """
        with open_folder(folder) as dataset:
            self.manifest: Manifest = dataset.manifest
            named = any(side.name == SOURCE for side in dataset.schema.side)
            if dataset.manifest.source is not UNSET or dataset.path != folder or not named:
                raise UsageError(
                    f"{folder} cannot be added to: only a dataset written by `stoker pack` has the "
                    "names of its samples; pack everything again"
                )
            self.names = {dataset.source(number) for number in range(len(dataset))}

    @property
    def first(self) -> int:
        """The number of the next file."""
        return next_number(self.manifest)

    def records(self) -> list[ShardRecord]:
        """Return records of the existing files, as if they had just been packed."""
        files = [ShardRecord(file, Summary()) for file in self.manifest.files]
        return [ShardRecord(None, _summary(self.manifest)), *files]

    def join(self, fields: Sequence[Field]) -> tuple[Field, ...]:
        """Return the declared fields of both.

        Args:
            fields: the source's fields, in their stored encodings.

        Raises:
            UsageError: they do not match those of the dataset.
        """
        there = {field.name: field for field in declared(self.manifest.schema.fields)}
        by_name = {field.name: field for field in fields}
        if there.keys() != by_name.keys():
            lacking = [name for name in there if name not in by_name]
            remedy = "name them with --field"
            if by_name.keys() < there.keys():
                remedy = (
                    f"give a source that has {', '.join(lacking)} too, such as a table, or the "
                    "folder that `stoker unpack` writes, with the new samples in it"
                )
            raise UsageError(
                f"expected the fields of the dataset, {', '.join(there)}, got "
                f"{', '.join(by_name)}; {remedy}"
            )
        return tuple(_joined(old, by_name[name]) for name, old in there.items())

    def new(
        self, items: Sequence[Item], fields: Sequence[Field], joined: Sequence[Field]
    ) -> "NewItems":
        """Return the new items, with places and classes as in the dataset."""
        order = [next(i for i, f in enumerate(fields) if f.name == one.name) for one in joined]
        classes = [_numbers(fields[place], one) for place, one in zip(order, joined, strict=True)]
        numbers = [number for number, item in enumerate(items) if item.name not in self.names]
        return NewItems(items, numbers, order, classes)


class NewItems(Sequence[Item]):
    """Some of the items of a source, with places in the order of the dataset's fields."""

    def __init__(
        self,
        items: Sequence[Item],
        numbers: Sequence[int],
        order: Sequence[int],
        classes: Sequence[dict[int, int]],
    ) -> None:
        """Select items by number; `order` and `classes` say how their places change."""
        self._items, self._numbers, self._order, self._classes = items, numbers, order, classes

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        """Return an item by its number."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self._changed(self._items[self._numbers[index]])

    def __iter__(self) -> Iterator[Item]:
        """Yield all items, in order."""
        return (self[number] for number in range(len(self)))

    def _changed(self, item: Item) -> Item:
        if len(item.places) != len(self._order):  # a record, read whole
            if any(self._classes):
                raise UsageError(_ELSEWHERE)
            return item
        places = [item.places[place] for place in self._order]
        for number, classes in enumerate(self._classes):
            if classes:
                place = places[number]
                if not isinstance(place, Given):
                    raise UsageError(_ELSEWHERE)
                places[number] = Given(classes[place.value])
        return msgspec.structs.replace(item, places=tuple(places))


_ELSEWHERE = (
    "the classes differ from those of the dataset, and the source's own files hold their numbers; "
    "pack everything again"
)


def _joined(old: Field, new: Field) -> Field:
    """Return a field for the values of both, as declared.

    Raises:
        UsageError: no field fits.
    """
    same: Callable[[Field], object] = lambda field: (  # noqa: E731 - all that must agree
        field.meaning,
        "file" if field.encoding in _FILES else field.encoding,
        field.dtype,
        field.column_type,
        {side.name for side in field.side},
        field.items,
        bool(field.keeps_orientation),
        (bool(field.optional), field.fill, bool(field.relative)),
    )
    plain = old.kind == "label" and old.class_ids is UNSET and new.class_ids is UNSET
    if same(old) != same(new) or (old.classes != new.classes and not plain):
        raise UsageError(
            f"field {old.name!r} is stored as {_shown(old)} in the dataset, but would be "
            f"{_shown(new)}; use the options that the dataset was packed with, or pack everything "
            "again"
        )
    if (old.classes is None) != (new.classes is None):
        raise UsageError(f"field {old.name!r}: {_ELSEWHERE}")
    classes = old.classes
    if classes is not None and new.classes is not None:
        classes = (*classes, *(name for name in new.classes if name not in classes))
    return msgspec.structs.replace(new, classes=classes)


def _shown(field: Field) -> str:
    sides = ", ".join(side.name.rpartition(".")[2] for side in field.side)
    beside = f" with {sides}" if sides else ""
    kept = ", EXIF orientation kept" if field.keeps_orientation else ""
    fill = "" if field.fill is UNSET else f" with the fill {field.fill}"
    may_lack = f", optional{fill}" if field.optional else ""
    return f"{field.meaning} {field.encoding} {field.column_type}{beside}{kept}{may_lack}"


def _numbers(new: Field, joined: Field) -> dict[int, int]:
    """Return the new numbers of a source's classes; empty if they stay the same."""
    if new.classes is None or joined.classes is None:
        return {}
    places = {number: joined.classes.index(name) for number, name in enumerate(new.classes)}
    return places if any(number != place for number, place in places.items()) else {}


def _summary(manifest: Manifest) -> Summary:
    """Return a summary of a dataset's rows, as far as appending needs it."""
    seen = manifest.statistics
    return Summary(
        rows=manifest.rows,
        fields={
            field.name: _field_summary(field, seen.fields[field.name], manifest.rows)
            for field in manifest.schema.fields
        },
        notes={note.what: (note.count, list(note.examples)) for note in seen.notes},
        bad=seen.skipped,
        bad_examples=list(seen.skipped_examples),
    )


def _field_summary(field: Field, seen: FieldStatistics, rows: int) -> FieldSummary:
    def side(found: tuple[int, int, float] | None, bound: Sequence[int]) -> SideSummary:
        if found is None:
            return SideSummary(0, bound[0] if bound else 0, 0)
        low, high, mean = found
        return SideSummary(low, high, round(mean * rows))

    mixed = ("jpeg", "png") if field.encoding == "encoded" else (field.encoding,)
    return FieldSummary(
        data_bytes=seen.data_bytes,
        height=side(seen.height, field.bound),
        width=side(seen.width, ()),
        encodings=dict.fromkeys(mixed, rows) if field.is_picture else {},
        turned=seen.turned,
        classes={value: count for value, count in enumerate(seen.per_class or ()) if count},
        gridded=seen.gridded,
        by_rows=seen.by_rows,
        came_bytes=seen.came_bytes,
        gridded_bytes=seen.gridded_bytes,
        values=seen.values,
    )
