"""Quarantine files: all bad samples so far, one JSON object per line, one file per dataset.

`<folder>/<the fingerprint's 32 hex digits>.jsonl`; a line has `id`, `field`, `source` and `reason`.
A sample is written once, also across restarts. A separate thread writes the files, because a disk
may be slow or full and the daemon's loop must not wait; failures to write are logged.
"""

import json
import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from stoker.server.settings import logs
from stoker.server.work.records import BadSample

CLOSE_S = 5.0


class QuarantineFiles:
    """Writes bad samples to quarantine files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, set[int]] = {}
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
        while (asked := self._asked.get()) is not None:
            dataset, bad = asked
            path = self._folder / f"{dataset.rpartition(':')[2]}.jsonl"
            try:
                self._write(path, bad)
            except OSError as error:
                reason = error.strerror or str(error)
                logs.log("warning", "quarantine_not_written", file=str(path), reason=reason)

    def _write(self, path: Path, bad: Sequence[BadSample]) -> None:
        known = self._known.get(path.name)
        if known is None:
            known = self._known[path.name] = set(ids_of(path)) if path.exists() else set()
        new = [sample for sample in bad if sample.id not in known]
        if not new:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(msgspec.structs.asdict(sample)) + "\n" for sample in new]
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
        known.update(sample.id for sample in new)


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
