"""Adding samples to a packed dataset: its files stay, new ones come behind them.

What is there is told by name (the column `stoker.source`): a sample whose name the dataset has is
left alone, whatever became of it since. The result is what packing everything at once would give,
in this order: what was there, then what is new, in the order of its source. So its fingerprint is
that of packing at once wherever the new samples come behind the old, as with further tars; in a
folder, new files lie among the old.

Fields must be stored as they are there. Classes that are new to a label are added behind those that
are there, and the source's numbers are changed to fit.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

import msgspec
from msgspec import UNSET

from stoker.dataset.format.item import Given, Item
from stoker.dataset.format.manifest import FieldStatistics, Manifest
from stoker.dataset.format.schema import SOURCE, Field
from stoker.dataset.format.summary import FieldSummary, SideSummary, Summary
from stoker.dataset.packing.shard import ShardRecord
from stoker.dataset.reading.reader import open_folder
from stoker.protocol.errors import UsageError

_FILES = ("jpeg", "png", "encoded")


class Base:
    """A dataset that is added to.

    Attributes:
        manifest: as it is.
        names: of its samples.
    """

    def __init__(self, folder: Path) -> None:
        """Read it.

        Raises:
            DatasetError: there is none, or it is damaged.
            UsageError: its samples have no names, or lie in the files of a source.
        """
        with open_folder(folder) as dataset:
            self.manifest: Manifest = dataset.manifest
            named = any(side.name == SOURCE for side in dataset.schema.side)
            if dataset.manifest.source is not UNSET or dataset.path != folder or not named:
                raise UsageError(
                    f"{folder} cannot be added to: only a dataset that `stoker pack` wrote knows "
                    "which samples it has; pack everything anew"
                )
            self.names = {dataset.source(number) for number in range(len(dataset))}

    @property
    def first(self) -> int:
        """The number of the next file."""
        return 1 + max(int(file.name.partition("-")[0]) for file in self.manifest.files)

    def records(self) -> list[ShardRecord]:
        """Return records of what is there, as if it had just been packed."""
        files = [ShardRecord(file, Summary()) for file in self.manifest.files]
        return [ShardRecord(None, _summary(self.manifest)), *files]

    def join(self, fields: Sequence[Field]) -> tuple[Field, ...]:
        """Return the fields of both, as they are declared.

        Args:
            fields: of the source, as they are to be stored.

        Raises:
            UsageError: they are not those of the dataset.
        """
        there = {field.name: field for field in self.manifest.schema.fields}
        if there.keys() != {field.name for field in fields}:
            raise UsageError(
                f"expected the fields that are there, {', '.join(there)}, got "
                f"{', '.join(field.name for field in fields)}; name them by --field"
            )
        by_name = {field.name: field for field in fields}
        return tuple(_joined(old, by_name[name]) for name, old in there.items())

    def new(
        self, items: Sequence[Item], fields: Sequence[Field], joined: Sequence[Field]
    ) -> "NewItems":
        """Return the items that are not there, with places and classes as the dataset has them."""
        order = [next(i for i, f in enumerate(fields) if f.name == one.name) for one in joined]
        classes = [_numbers(fields[place], one) for place, one in zip(order, joined, strict=True)]
        numbers = [number for number, item in enumerate(items) if item.name not in self.names]
        return NewItems(items, numbers, order, classes)


class NewItems(Sequence[Item]):
    """Some of the items of a source, their places in the order of the dataset's fields."""

    def __init__(
        self,
        items: Sequence[Item],
        numbers: Sequence[int],
        order: Sequence[int],
        classes: Sequence[dict[int, int]],
    ) -> None:
        """Take the items, the numbers of those that are meant, and how their places change."""
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
    "the classes differ from those that are there, and the source's own files hold their numbers; "
    "pack everything anew"
)


def _joined(old: Field, new: Field) -> Field:
    """Return a field that holds the values of both, as it is declared.

    Raises:
        UsageError: there is none.
    """
    same: Callable[[Field], object] = lambda field: (  # noqa: E731 - what must agree, in one place
        field.kind,
        "file" if field.encoding in _FILES else field.encoding,
        field.dtype,
        field.column_type,
        {side.name for side in field.side},
        field.items,
        bool(field.keeps_orientation),
    )
    plain = old.kind == "label" and old.class_ids is UNSET and new.class_ids is UNSET
    if same(old) != same(new) or (old.classes != new.classes and not plain):
        raise UsageError(
            f"field {old.name!r} is stored as {_shown(old)} there, and would be as {_shown(new)}; "
            "give the options that the dataset was packed with, or pack everything anew"
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
    return f"{field.kind} {field.encoding} {field.column_type}{beside}{kept}"


def _numbers(new: Field, joined: Field) -> dict[int, int]:
    """Return how the numbers of a source's classes change; empty if they do not."""
    if new.classes is None or joined.classes is None:
        return {}
    places = {number: joined.classes.index(name) for number, name in enumerate(new.classes)}
    return places if any(number != place for number, place in places.items()) else {}


def _summary(manifest: Manifest) -> Summary:
    """Return what was seen of a dataset's rows, as far as it decides what becomes of more."""
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
    )
