"""WebDataset: tar files whose members are the parts of samples, distinguished by their names.

The **key** of a member is its path up to the first dot of its last part, its **extension** is
everything after that dot; adjacent members with one key are one sample. The extension decides the
kind of a part: with an image suffix an image, or a mask if a word in it suggests that (`seg.png`);
`cls` is the label; `id` and `index` are integers; `npy` is an array; anything else is unchanged
bytes. The field is named by the part before the suffix (`seg.png` gives `seg`), otherwise `image`,
`mask`, `label`, or like the extension. `--field EXT=KIND` overrides that (`sources.declare`),
`EXT=ignore` leaves a part out.

Scanning reads only the headers of tar files and of arrays. Order: tar files by path, samples as
stored. A sample that lacks a part that others have is bad, unless the part is optional
(`--field EXT=KIND,fill=NUMBER`).
"""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.fields import PICTURES
from stoker.dataset.format.optional_fields import how_to_declare
from stoker.dataset.format.source_item import Container, Extract, Given, Item, SourceFile
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.field_notation import (
    IGNORE,
    declare,
    field_name,
    is_optional,
    plain_kind,
)
from stoker.dataset.sources.common.file_patterns import check_splits, find_files
from stoker.dataset.sources.common.lazy_items import LazyItems
from stoker.dataset.sources.common.npy import HEADER_BYTES, NpyHeader, read_header
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import SUFFIXES
from stoker.dataset.sources.formats.tar_samples import TarSamples
from stoker.protocol.datasets import TAR as SUFFIX
from stoker.protocol.errors import UsageError

NPY = "npy"
_PICTURES = frozenset(suffix.removeprefix(".") for suffix in SUFFIXES)
_MASKS = re.compile(r"(^|[._-])(masks?|seg|segmentations?|annotations?|gt)($|[._-])", re.IGNORECASE)
_KIND_OF = {"cls": "label", "id": "int64", "index": "int64", "npy": NPY}
_ORDER = {"image": 0, "mask": 1, "label": 2}


def is_webdataset(source: Path) -> bool:
    """Return whether this looks like tars of samples."""
    if source.is_dir():
        return any(source.glob(f"*{SUFFIX}"))
    return source.name.endswith(SUFFIX)


def scan_webdataset(source: Path, request: Request) -> SourceScan:
    """Scan tars of samples.

    Args:
        source: a folder of tars, one tar, or a pattern.
        request: its fields are extension -> kind.

    Raises:
        UsageError: there is no tar file, no readable sample, two extensions give one field, or a
            kind is invalid.
    """
    root, files = webdataset_files(source)
    if not request.asked:
        check_splits(str(source), files)
    tars = [TarSamples(root / file.path) for file in files]
    names = [file.path for file in files]
    bad = [(name, tar.broken) for name, tar in zip(names, tars, strict=True) if tar.broken]
    if bad and not any(tar.parts for tar in tars):
        broken = "\n".join(f"  {name}: {reason}" for name, reason in bad)
        raise UsageError(f"{source} has no readable sample:\n{broken}")
    groups = _groups(str(source), {name for tar in tars for name in tar.parts}, request.fields)
    items = TarItems(tars, names, groups, bad)
    fields = tuple(_field(group, items.headers(place, root)) for place, group in enumerate(groups))
    ignored = sum((tar.ignored for tar in tars), Counter[str]())
    containers = [Container(file) for file in files]
    return SourceScan(
        "webdataset",
        root,
        fields,
        items,
        containers,
        "tars",
        in_place=True,
        bad=bad,
        ignored=ignored,
    )


def webdataset_files(source: Path) -> tuple[Path, list[SourceFile]]:
    """Return the folder that paths are relative to, and the tars of a source, in order.

    Raises:
        UsageError: there is no tar file.
    """
    return find_files(str(source), (SUFFIX,))


class TarGroup(NamedTuple):
    """A field: its name, its KIND (or NPY), and its extensions; each sample has one of them.

    If it is optional, samples may lack it.
    """

    name: str
    kind: str
    extensions: tuple[str, ...]

    @property
    def is_optional(self) -> bool:
        """True if samples may lack it."""
        return is_optional(self.kind)

    @property
    def declared_kind(self) -> str:
        """The KIND that a user writes for it; the type of an array is in its files."""
        return "float32[...]" if self.kind == NPY else plain_kind(self.kind)


class TarItems(LazyItems):
    """The good samples of all tars."""

    def __init__(
        self,
        tars: Sequence[TarSamples],
        names: Sequence[str],
        groups: Sequence[TarGroup],
        bad: list[tuple[str, str]],
    ) -> None:
        """Find the good samples; adds (name, reason) of all others to `bad`."""
        self._tars, self._names = tars, names
        self._columns = [_columns(tar, groups) for tar in tars]
        self._samples: list[np.ndarray] = []
        for tar, name, columns in zip(tars, names, self._columns, strict=True):
            good = np.ones(len(tar.keys), bool)
            for sample, reason in _faults(tar, groups, columns).items():
                good[sample] = False
                bad.append((f"{name}/{tar.keys[sample]}", reason))
            self._samples.append(np.flatnonzero(good))
        super().__init__([len(samples) for samples in self._samples])

    def make(self, container: int, number: int) -> Item:
        """Return an item."""
        sample = int(self._samples[container][number])
        places = tuple(
            Extract(container, int(column.offsets[sample]), int(column.sizes[sample]))
            if column.members[sample]
            else Given(None)
            for column in self._columns[container]
        )
        name = f"{self._names[container]}/{self._tars[container].keys[sample]}"
        sizes = (place.size_bytes for place in places if isinstance(place, Extract))
        return Item(name, sum(sizes), places)

    def headers(self, place: int, root: Path) -> Iterator[NpyHeader]:
        """Yield the readable headers of the arrays of one field."""
        for name, samples, columns in zip(self._names, self._samples, self._columns, strict=True):
            descriptor = os.open(root / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for sample in samples.tolist():
                    offset, size = columns[place].offsets[sample], columns[place].sizes[sample]
                    data = os.pread(descriptor, min(int(size), HEADER_BYTES), int(offset))
                    with contextlib.suppress(CodecError):  # packing reports the fault
                        yield read_header(data)
            finally:
                os.close(descriptor)


@dataclass(frozen=True)
class _FieldPlaces:
    """The places of one field in all samples of a tar, and how many members each has."""

    offsets: np.ndarray
    sizes: np.ndarray
    members: np.ndarray


def _columns(tar: TarSamples, groups: Sequence[TarGroup]) -> list[_FieldPlaces]:
    columns = []
    for group in groups:
        count = len(tar.keys)
        offsets, sizes = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        members = np.zeros(count, np.int64)
        for extension in group.extensions:
            part = tar.parts.get(extension)
            if part is not None:
                there = np.frombuffer(part.offsets, np.int64) >= 0
                offsets[there] = np.frombuffer(part.offsets, np.int64)[there]
                sizes[there] = np.frombuffer(part.sizes, np.int64)[there]
                members += there
        columns.append(_FieldPlaces(offsets, sizes, members))
    return columns


def _faults(
    tar: TarSamples, groups: Sequence[TarGroup], columns: Sequence[_FieldPlaces]
) -> dict[int, str]:
    """Return the reasons why samples are bad, in order."""
    found: dict[int, str] = {}
    for group, column in zip(groups, columns, strict=True):
        wanted = " or ".join(f".{extension}" for extension in group.extensions)
        lacking = () if group.is_optional else np.flatnonzero(column.members == 0).tolist()
        for sample in lacking:
            found.setdefault(
                sample,
                f"it has no member {wanted}, but other samples do; if samples may lack it, declare "
                f"it: {how_to_declare(group.extensions[0], group.declared_kind)}",
            )
        for sample in np.flatnonzero(column.members > 1).tolist():
            found.setdefault(
                sample,
                f"it has several members that could be its {group.name} ({wanted}); declare "
                f"them, for example with --field {group.extensions[-1]}=mask, or =ignore",
            )
    return dict(sorted((found | tar.faults).items()))


def _remedy(one: str, other: str) -> str:
    """Return what to do about two extensions that give one field."""
    if "." not in one and "." not in other:
        return f"leave one out with --field {other}=ignore"
    return (
        "the key of a sample ends at the first dot of its members' names, and what follows is the "
        "extension. If keys contain dots, write the tar with other keys, such as v1_0 for v1.0; "
        f"else leave one extension out with --field EXTENSION=ignore ({one} or {other})"
    )


def _groups(source: str, extensions: set[str], kinds: Mapping[str, str]) -> list[TarGroup]:
    """Return the fields: images, masks, labels, then all others by name."""
    for extension in kinds.keys() - extensions:
        raise UsageError(
            f"--field {extension}={kinds[extension]}: {source} has no such extension, only "
            f"{', '.join(sorted(extensions))}"
        )
    found: dict[str, tuple[str, list[str]]] = {}
    for extension in sorted(extensions):
        kind = kinds.get(extension) or _kind(extension)
        if kind == IGNORE:
            continue
        name = _name(extension, kind)
        group = found.setdefault(name, (kind, []))
        if group[1] and (group[0] != kind or plain_kind(kind) not in PICTURES):
            raise UsageError(
                f"{source}: .{group[1][0]} and .{extension} both give the field {name!r}; "
                f"{_remedy(group[1][0], extension)}"
            )
        group[1].append(extension)
    if not found:
        raise UsageError(
            f"{source} has no samples: expected members with names such as KEY.jpg; check its "
            "content"
        )
    groups = [TarGroup(name, kind, tuple(members)) for name, (kind, members) in found.items()]
    order = {group.name: _ORDER.get(plain_kind(group.kind), len(_ORDER)) for group in groups}
    return sorted(groups, key=lambda group: (order[group.name], group.name))


def _kind(extension: str) -> str:
    suffix = extension.rpartition(".")[2]
    if suffix in _PICTURES:
        return "mask" if _MASKS.search(extension.removesuffix(suffix)) else "image"
    return _KIND_OF.get(suffix, "bytes")


def _name(extension: str, kind: str) -> str:
    before, _, suffix = extension.rpartition(".")
    plain = plain_kind(kind)
    return field_name(before or (plain if plain in _ORDER else suffix))


def _field(group: TarGroup, headers: Iterator[NpyHeader]) -> schema.Field:
    if group.kind == NPY:
        return _array_field(group.name, headers)
    return declare(group.name, group.kind, f".{group.extensions[0]}")


def _array_field(name: str, headers: Iterator[NpyHeader]) -> schema.Field:
    """Return a field that fits the first array, and others with another first side."""
    first = next(headers, None)
    if first is None:
        return schema.blob(name)
    if not first.shape:
        return schema.scalar(name, first.dtype.name)
    free = any(header.shape[:1] != first.shape[:1] for header in headers)
    shape = (None, *first.shape[1:]) if free else first.shape
    return schema.array(name, first.dtype.name, shape)
