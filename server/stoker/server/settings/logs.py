"""Structured logs on standard error: an event's name, then its facts; no secret among them.

Lines are formatted where the event happens and written by a thread of their own, because standard
error may be a pipe that no process empties, and the daemon's loop must not wait for it. The queue
holds `CAPACITY` lines; what does not fit, or cannot be written because a disk is full, is dropped
and counted, and the count is logged once there is room.

Bytes (tokens, routing ids) are refused as facts: they are shown as their length only.

`RateLimit` keeps a hostile peer from filling the log.
"""

import collections
import datetime
import json
import logging
import threading
from collections.abc import Mapping
from typing import Final, TextIO

CAPACITY: Final = 4096
LOGGER: Final = "stoker"


def log(level: str, event: str, **facts: object) -> None:
    """Log one event; `level` is "debug", "info", "warning" or "error"."""
    write(level, event, facts)


def write(level: str, event: str, facts: Mapping[str, object]) -> None:
    """Log one event whose facts come as a mapping."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    logging.getLogger(LOGGER).log(number, event, extra={"facts": dict(facts)})


class RateLimit:
    """Lets `burst` events through per `period_s`, for each key, and counts the others."""

    def __init__(self, burst: int, period_s: float) -> None:
        self._burst = burst
        self._period_s = period_s
        self._windows: dict[str, tuple[float, int]] = {}

    def allow(self, key: str, now: float) -> int | None:
        """Return None if the event is not to be logged, else how many were suppressed before it."""
        began, count = self._windows.get(key, (now, 0))
        suppressed = 0
        if now - began >= self._period_s:
            began, count, suppressed = now, 0, max(0, count - self._burst)
        self._windows[key] = (began, count + 1)
        return suppressed if count < self._burst else None


class TextFormatter(logging.Formatter):
    """`2026-01-31 12:00:00.123 info event key=value ...`, local time."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        facts = key_values(shown_facts(record))
        return f"{when} {record.levelname.lower()} {record.getMessage()} {facts}".rstrip()


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, event, then the facts."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        head = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        return json.dumps({**shown_facts(record), **head}, default=str)


class QueueingHandler(logging.Handler):
    """Passes formatted lines to a thread that writes them; never waits."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._lines: collections.deque[str] = collections.deque()
        self._dropped = 0
        self._torn = False
        self._wake = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="stoker-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one line, or count it as dropped."""
        line = self.format(record)
        with self._wake:
            if len(self._lines) >= CAPACITY:
                self._dropped += 1
            else:
                self._lines.append(line)
                self._wake.notify()

    def finish(self, patience_s: float) -> None:
        """Write what is queued, for at most that long, and end the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(patience_s)

    def _write(self) -> None:
        while lines := self._take():
            with self._wake:
                dropped, self._dropped = self._dropped, 0
            if dropped:
                lines.append(f"(dropped {dropped} log lines: standard error was full or not read)")
            left = self._put("".join(f"{line}\n" for line in lines).encode(errors="replace"))
            if left:  # the daemon's work goes on; the last line left is the one about the others
                with self._wake:
                    self._dropped += left - bool(dropped) + dropped

    def _put(self, data: bytes) -> int:
        """Write lines; return how many are left because that failed."""
        torn, written = self._torn, 0
        data = b"\n" * torn + data
        try:
            if (raw := getattr(getattr(self._stream, "buffer", None), "raw", None)) is None:
                self._stream.write(data.decode())
                self._stream.flush()
                return 0
            while written < len(data):  # unbuffered: a buffer would tear lines when a disk is full
                count = raw.write(data[written:])
                if count is None:
                    break
                written += count
        except (OSError, ValueError):
            pass
        if written:
            self._torn = data[written - 1 : written] != b"\n"
        return data[written:].count(b"\n") - (torn and not written)

    def _take(self) -> list[str]:
        with self._wake:
            while not self._lines and not self._closed:
                self._wake.wait()
            taken = list(self._lines)
            self._lines.clear()
        return taken


class Logs:
    """The daemon's logging from `start` to `close`; also a context manager."""

    def __init__(self, level: str, form: str, stream: TextIO) -> None:
        self._handler = QueueingHandler(stream)
        self._handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
        self._logger = logging.getLogger(LOGGER)
        self._logger.propagate = False
        self._logger.setLevel(level.upper())
        self._logger.addHandler(self._handler)

    def close(self, patience_s: float = 1.0) -> None:
        """Write what is queued and end the thread."""
        self._logger.removeHandler(self._handler)
        self._handler.finish(patience_s)

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shown_facts(record: logging.LogRecord) -> dict[str, object]:
    """Return the facts of a line, with the length of bytes in their place."""
    facts = getattr(record, "facts", None) or {}
    shown = {key: _harmless(value) for key, value in facts.items()}
    if record.exc_info:
        shown["exception"] = logging.Formatter().formatException(record.exc_info)
    return shown


def _harmless(value: object) -> object:
    return f"<{len(value)} bytes>" if isinstance(value, (bytes, bytearray, memoryview)) else value


def key_values(facts: Mapping[str, object]) -> str:
    """Return `key=value key=value ...`; a value with spaces, quotes or controls is quoted."""
    return " ".join(f"{key}={_text(value)}" for key, value in facts.items())


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    plain = text and all(char.isprintable() and char not in ' "=' for char in text)
    return text if plain else json.dumps(text)
