"""Files that an earlier run of packing left behind: kept if they still match, otherwise removed.

A file matches if its record has the key of the job (its items have not changed) and its content has
the record's hash. Everything else in the work folder is removed; files in the dataset's own folder
are left to `commit`, because an older dataset may still be read from there.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from stoker.dataset.packing.cutting import LISTING
from stoker.dataset.packing.pack_shard import KeptRecord, ShardJob
from stoker.dataset.packing.shard import ShardRecord
from stoker.protocol.analysis import analyzed

_PIECE = 2**20


def kept_records(folder: Path, work: Path, jobs: Sequence[ShardJob]) -> dict[int, ShardRecord]:
    """Return the records of finished files that still match, by number; remove all others."""
    found = {}
    for job in jobs:
        kept = _read(work / f"{job.index:05d}.json")
        if kept is not None and kept.key == job.key and _is_whole(folder, kept.record):
            found[job.index] = kept.record
    known = {"lock", LISTING, *(f"{index:05d}.json" for index in found)}
    for path in work.iterdir():
        if path.name not in known:
            path.unlink()
    return found


def file_digest(path: Path) -> str:
    """Return the BLAKE2b-128 of a file, 32 hex digits."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _read(path: Path) -> KeptRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=analyzed(KeptRecord))
    except (OSError, msgspec.DecodeError):
        return None


def _is_whole(folder: Path, record: ShardRecord) -> bool:
    if record.file is None:
        return True
    path = folder / record.file.name
    try:
        if path.stat().st_size != record.file.size_bytes:
            return False
        return file_digest(path) == record.file.digest
    except OSError:
        return False
