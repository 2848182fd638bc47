"""Reads the configuration again, at SIGHUP, in a thread of its own: file systems may wait.

Names of datasets and pipelines, and the level of the log, come into force at once; open streams go
on as they are. Other values need a restart, and the log lists those that changed. A configuration
with a mistake changes nothing.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from stoker.protocol.errors import StokerError
from stoker.server.settings import logs
from stoker.server.settings.config_loading import Loaded
from stoker.server.settings.config_types import Config
from stoker.server.settings.served_names import check_served

RELOADED: Final = ("datasets", "pipelines")
"""Sections that come into force at once; so does `log.level`."""


class Reloader:
    """The configuration in force, and the thread that reads a newer one.

    Attributes:
        read: reads the configuration as it was read at the start.
    """

    def __init__(self, loaded: Loaded, read: Callable[[], Loaded]) -> None:
        self.read = read
        self._in_force = loaded
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread: threading.Thread | None = None
        self._found: Loaded | StokerError | None = None
        self._again = False

    def fileno(self) -> int:
        """Return the descriptor that is readable when `collect` has something to do."""
        return self._bell

    def begin(self) -> None:
        """Begin to read; if that is under way, once more after it."""
        if self._thread is not None:
            self._again = True
            return
        self._thread = threading.Thread(target=self._run, name="stoker-reload", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            _refused(str(error))

    def collect(self) -> Config | None:
        """Return the configuration that comes into force; None: the old one stays."""
        os.eventfd_read(self._bell)
        if self._thread is not None:
            self._thread.join()  # it has nothing left to do
        self._thread, found = None, self._found
        if self._again:
            self._again = False
            self.begin()
            return None
        if isinstance(found, StokerError):
            _refused(found.message)
            return None
        assert found is not None  # the thread has ended
        restart = ", ".join(_to_restart(self._in_force, found)) or "-"
        self._in_force = found
        config = found.config
        logging.getLogger(logs.LOGGER).setLevel(config.log.level.upper())
        logs.log(
            "info", "configuration_reread", datasets=len(config.datasets),
            pipelines=len(config.pipelines), log_level=config.log.level, needs_restart=restart,
        )  # fmt: skip
        return config

    def close(self) -> None:
        """Wait for the thread and close the descriptor."""
        if self._thread is not None:
            self._thread.join()
        os.close(self._bell)

    def _run(self) -> None:
        try:
            loaded = self.read()
            check_served(loaded)
            self._found = loaded
        except StokerError as error:
            self._found = error
        except Exception as error:
            self._found = StokerError(f"{type(error).__name__}: {error}")
        os.eventfd_write(self._bell, 1)


def _refused(reason: str) -> None:
    logs.log("error", "configuration_not_reread", reason=reason)


def _to_restart(before: Loaded, after: Loaded) -> Iterator[str]:
    """Yield the keys whose values changed and need a restart; defaults follow the host."""
    old, new = msgspec.structs.asdict(before.config), msgspec.structs.asdict(after.config)
    for section in old.keys() - set(RELOADED):
        for key in old[section].__struct_fields__:
            path = f"{section}.{key}"
            origins = before.origins[path], after.origins[path]
            if path == "log.level" or all(origin.startswith("default") for origin in origins):
                continue
            if getattr(old[section], key) != getattr(new[section], key):
                yield path
