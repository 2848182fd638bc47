"""Cut a scanned source into the files to pack, and write the listing for their jobs.

The cut depends on the source alone (order and sizes of its items), never on workers or time.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.dataset.format.fields import Schema
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.format.source_item import Item
from stoker.dataset.packing.build import MAX_FILE_BYTES, MAX_ROWS_PER_FILE, Cut
from stoker.dataset.packing.item_listing import listed
from stoker.dataset.packing.pack_shard import ShardJob
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.common.scan import SourceScan
from stoker.protocol.canonical import canonical_bytes

LISTING = "listing"
_PIECES = 64
_SMALLEST = 4 * 2**20
_FEWEST = 4096
_WRITER = 5
"""Version of the output of `pack_shard`: after a change, files kept from older runs are redone."""


def default_cut(items: Iterable[Item]) -> Cut:
    """Cut into about 64 files of 4 MiB to 1 GiB, so that there is work for many workers."""
    total = sum(item.size_bytes for item in items)
    return Cut(data_bytes=min(MAX_FILE_BYTES, max(_SMALLEST, total // _PIECES)))


def index_cut(items: Sequence[Item]) -> Cut:
    """Cut an index into about 64 files, of 4,096 to 2**20 rows."""
    return Cut(rows=min(MAX_ROWS_PER_FILE, max(_FEWEST, len(items) // _PIECES)))


@dataclass(frozen=True)
class Destination:
    """The destination of a dataset: its folder, the temporary folder, the first file's number."""

    dest: Path
    work: Path
    first: int = 0


@dataclass(frozen=True)
class How:
    """The user's options that are the same for all files."""

    conversion: Conversion
    max_bad: int


def plan_jobs(
    scan: SourceScan, schema: Schema, place: Destination, cut: Cut, how: How
) -> list[ShardJob]:
    """Write the listing into the work folder and return a job for each file to pack."""
    recipe = Recipe(
        source=str(scan.root.resolve()),
        reader=scan.reader,
        settings=dict(scan.settings),
        containers=tuple(scan.containers),
        aligned=scan.aligned,
        schema=schema,
        conversion=how.conversion,
        max_bad=how.max_bad,
        in_place=any(field.referenced for field in schema.fields),
    )
    base = canonical_bytes({"writer": _WRITER, **msgspec.to_builtins(recipe)})
    jobs, offset = [], 0
    with open(place.work / LISTING, "wb") as listing:
        for index, piece in enumerate(_pieces(scan.items, cut), place.first):
            lines = b"".join(map(listed, piece))
            listing.write(lines)
            jobs.append(
                ShardJob(
                    index=index,
                    recipe=recipe,
                    dest=str(place.dest),
                    work=str(place.work),
                    listing=str(place.work / LISTING),
                    offset=offset,
                    count=len(piece),
                    size_bytes=sum(item.size_bytes for item in piece),
                    key=hashlib.blake2b(base + b"\n" + lines, digest_size=16).hexdigest(),
                )
            )
            offset += len(lines)
    return jobs


def _pieces(items: Iterable[Item], cut: Cut) -> Iterator[list[Item]]:
    piece: list[Item] = []
    size_bytes = 0
    for item in items:
        piece.append(item)
        size_bytes += item.size_bytes
        if len(piece) >= cut.rows or size_bytes >= cut.data_bytes:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece
