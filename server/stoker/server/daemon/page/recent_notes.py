"""The last warnings of the log, and the last bad samples, for the page; a bounded number of each.

Both are written in one thread and read in another: appending to a deque and copying it are atomic.
Times are seconds since 1970.
"""

import collections
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from stoker.server.settings.logs import LOGGER, key_values, shown_facts
from stoker.server.work.work_records import BadSample

MOST: Final = 50
MAX_TEXT: Final = 500


class RecentWarnings(logging.Handler):
    """Keeps the last warnings and errors of the log, until `close`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._notes: collections.deque[Mapping[str, object]] = collections.deque(maxlen=MOST)
        logging.getLogger(LOGGER).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        note = {
            "time": record.created,
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "facts": _cut(key_values(shown_facts(record))),
        }
        self._notes.append(note)

    def newest_first(self) -> list[Mapping[str, object]]:
        """Return what is kept."""
        return [*self._notes][::-1]

    def close(self) -> None:
        """Take nothing more."""
        logging.getLogger(LOGGER).removeHandler(self)
        super().close()


class RecentBadSamples:
    """Keeps the last bad samples."""

    def __init__(self) -> None:
        self._notes: collections.deque[Mapping[str, object]] = collections.deque(maxlen=MOST)

    def add(self, dataset: str, bad: Sequence[BadSample]) -> None:
        """Keep bad samples of the dataset with that fingerprint."""
        now = time.time()
        for one in bad[-MOST:]:
            note = {
                "time": now,
                "dataset": dataset,
                "id": one.id,
                "field": _cut(one.field),
                "source": _cut(one.source),
                "reason": _cut(one.reason),
            }
            self._notes.append(note)

    def newest_first(self) -> list[Mapping[str, object]]:
        """Return what is kept."""
        return [*self._notes][::-1]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
