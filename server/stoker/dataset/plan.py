"""Cuts a scanned source into the files that will be packed, and writes the listing they read from.

The cut depends on the source alone (order and sizes of its files), never on workers or time.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stoker.dataset.build import MAX_FILE_BYTES, Cut
from stoker.dataset.pack_shard import ShardJob
from stoker.dataset.schema import Schema
from stoker.dataset.sources.scan import Item
from stoker.protocol.canonical import canonical_bytes

LISTING = "listing"
_PIECES = 64
_SMALLEST = 4 * 2**20
_WRITER = 1
"""Version of what `pack_shard` writes: a change makes files kept from older runs unfit."""


def item_bytes(item: Item) -> int:
    """Bytes of an item's files."""
    return sum(file.size_bytes for file in item.files)


def default_cut(items: list[Item]) -> Cut:
    """Cut into about 64 files, to have work for many workers, but of 4 MiB to 1 GiB."""
    total = sum(item_bytes(item) for item in items)
    return Cut(data_bytes=min(MAX_FILE_BYTES, max(_SMALLEST, total // _PIECES)))


def plan_jobs(
    items: list[Item], schema: Schema, source: Path, dest: Path, work: Path, cut: Cut, max_bad: int
) -> list[ShardJob]:
    """Write the listing into the work folder and return a job for each file to pack."""
    base = canonical_bytes(
        {
            "writer": _WRITER,
            "schema": msgspec.to_builtins(schema),
            "source": str(source.resolve()),
            "max_bad": max_bad,
        }
    )
    jobs, offset = [], 0
    with open(work / LISTING, "wb") as listing:
        for index, piece in enumerate(_pieces(items, cut)):
            lines = b"".join(msgspec.json.encode(item) + b"\n" for item in piece)
            listing.write(lines)
            jobs.append(
                ShardJob(
                    index=index,
                    source=str(source),
                    dest=str(dest),
                    work=str(work),
                    schema=schema,
                    listing=str(work / LISTING),
                    offset=offset,
                    count=len(piece),
                    size_bytes=sum(item_bytes(item) for item in piece),
                    key=hashlib.blake2b(base + b"\n" + lines, digest_size=16).hexdigest(),
                    max_bad=max_bad,
                )
            )
            offset += len(lines)
    return jobs


def _pieces(items: list[Item], cut: Cut) -> Iterator[list[Item]]:
    piece: list[Item] = []
    size_bytes = 0
    for item in items:
        piece.append(item)
        size_bytes += item_bytes(item)
        if len(piece) >= cut.rows or size_bytes >= cut.data_bytes:
            yield piece
            piece, size_bytes = [], 0
    if piece:
        yield piece
