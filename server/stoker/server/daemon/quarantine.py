"""Quarantine files: all bad samples so far, one JSON object per line, one file per dataset.

`<folder>/<the fingerprint's 32 hex digits>.jsonl`; a line has `id`, `field`, `source` and `reason`.
A sample is written once, also across restarts. A separate thread writes the files, because a disk
may be slow or full and the daemon's loop must not wait. A failed write is logged once, kept
(up to `CAPACITY` samples) and tried again every `RETRY_S` seconds; a line is written whole or not
at all.
"""

import json
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from stoker.server.settings import logs
from stoker.server.work.work_records import BadSample

CLOSE_S = 5.0
RETRY_S = 5.0
CAPACITY = 2**16


class QuarantineFiles:
    """Writes bad samples to quarantine files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, set[int]] = {}
        self._kept: dict[str, list[BadSample]] = {}
        self._told: set[str] = set()
        self._asked: queue.SimpleQueue[tuple[str, Sequence[BadSample]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="stoker-quarantine", daemon=True)
        self._thread.start()

    def add(self, dataset: str, bad: Sequence[BadSample]) -> None:
        """Queue bad samples of the dataset with that fingerprint; never waits."""
        self._asked.put((dataset, bad))

    def close(self) -> None:
        """Write what is queued, for at most `CLOSE_S`, and end the thread."""
        self._asked.put(None)
        self._thread.join(CLOSE_S)

    def _work(self) -> None:
        while True:
            try:
                asked = self._asked.get(timeout=RETRY_S if self._kept else None)
            except queue.Empty:
                asked = "", ()
            if asked is not None and asked[0]:
                self._keep(*asked)
            for dataset in list(self._kept):
                self._try(dataset)
            if asked is None:
                return

    def _keep(self, dataset: str, bad: Sequence[BadSample]) -> None:
        room = CAPACITY - sum(map(len, self._kept.values()))
        self._kept.setdefault(dataset, []).extend(bad[: max(room, 0)])

    def _try(self, dataset: str) -> None:
        """Write the samples of a dataset that are not written yet; log once that it fails."""
        path = self._folder / f"{dataset.rpartition(':')[2]}.jsonl"
        try:
            self._write(path, self._kept[dataset])
        except OSError as error:
            if dataset not in self._told:
                self._told.add(dataset)
                reason = error.strerror or str(error)
                logs.log("warning", "quarantine_not_written", file=str(path), reason=reason)
            return
        count = len(self._kept.pop(dataset))
        if dataset in self._told:
            self._told.remove(dataset)
            logs.log("info", "quarantine_written", file=str(path), samples=count)

    def _write(self, path: Path, bad: Sequence[BadSample]) -> None:
        known = self._known.get(path.name)
        if known is None:
            known = self._known[path.name] = set(ids_of(path)) if path.exists() else set()
        new = {sample.id: sample for sample in bad if sample.id not in known}.values()
        if not new:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(msgspec.structs.asdict(sample)) + "\n" for sample in new]
        _append(path, "".join(lines).encode())
        known.update(sample.id for sample in new)


def _append(path: Path, data: bytes) -> None:
    """Append lines, all or none of them; a last line without an end gets one.

    Raises:
        OSError: they cannot be written.
    """
    with path.open("a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
            data = b"\n" + data
        try:
            while data:
                data = data[file.write(data) :]
        except OSError:
            file.truncate(size)
            raise


def ids_of(path: Path) -> Iterator[int]:
    """Yield the ids in a quarantine file; malformed lines are skipped.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                number = json.loads(line)["id"]
            except (ValueError, TypeError, KeyError):
                continue
            if isinstance(number, int):
                yield number
