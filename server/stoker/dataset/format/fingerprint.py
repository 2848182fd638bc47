"""The fingerprint of a packed dataset: a hash of its content and schema only.

It does not depend on how the rows were cut into files or written. Row digest: BLAKE2b-128 over the
fields in schema order, each as the length of its hashed bytes (unsigned 64-bit, little-endian) and
those bytes (`format.cells`). Fingerprint: BLAKE2b-128 over the length (again 64-bit) and bytes of
the schema's canonical form, the number of rows (64-bit), and the row digests in row order.
Specified with a vector in docs/contracts/dataset.md.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET

from stoker.dataset.format.cells import Cell
from stoker.dataset.format.fields import UPRIGHT, Field
from stoker.dataset.format.source_item import SourceFile
from stoker.protocol.canonical import Canonical, canonical_bytes

VERSION = 1


def row_digest(cells: Sequence[Cell]) -> bytes:
    """Return the 16-byte digest of a row, from its cells in schema order."""
    digest = hashlib.blake2b(digest_size=16)
    add_cells(digest, cells)
    return digest.digest()


def add_cells(digest: hashlib.blake2b, cells: Sequence[Cell]) -> None:
    """Continue the hash of a row with further cells, in schema order."""
    for cell in cells:
        digest.update(struct.pack("<Q", len(cell.prefix) + len(cell.hashed)))
        digest.update(cell.prefix)
        digest.update(cell.hashed)


def dataset_fingerprint(
    fields: Sequence[Field],
    rows: int,
    digests: Iterable[bytes | memoryview],
    files: Sequence[SourceFile] | None = None,
    level: str = "content",
) -> str:
    """Return `<level>:<32 hex digits>`.

    Args:
        fields: the finished fields, in order.
        rows: number of rows.
        digests: the row digests, in row order, in pieces of any size.
        files: for an index: the files of its source.
        level: what the hash covers: `content`, `stat` (for an index), or a `declared` fingerprint.
    """
    about: dict[str, Canonical] = {
        "version": VERSION,
        "fields": [_described(field) for field in fields],
    }
    if files is not None:
        about["files"] = [msgspec.to_builtins(file) for file in files]
    described = canonical_bytes(about)
    digest = hashlib.blake2b(digest_size=16)
    digest.update(struct.pack("<Q", len(described)) + described + struct.pack("<Q", rows))
    for piece in digests:
        digest.update(piece)
    return f"{level}:{digest.hexdigest()}"


def _described(field: Field) -> dict[str, Canonical]:
    """Return the hashed description of a field; one that is not ragged has no `items`.

    A kept orientation counts only if the bytes of files are hashed; pixels already include it.
    """
    described: dict[str, Canonical] = {
        "name": field.name,
        "kind": field.meaning,
        "encoding": field.encoding,
        "dtype": field.dtype,
        "shape": field.shape,
        "classes": field.classes,
    }
    if field.items is not UNSET:
        described["items"] = msgspec.to_builtins(field.items)
    if field.keeps_orientation and field.encoding not in UPRIGHT:
        described["orientation"] = "keep"
    return described
