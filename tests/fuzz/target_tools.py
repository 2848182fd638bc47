"""Helpers of the targets: registering them, and the meaning of "accepts or refuses"."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from stoker.protocol.errors import StokerError

Made = TypeVar("Made")
TARGETS: Final[dict[str, Callable[[bytes], bool]]] = {}
CLEANUP: Final[list[Callable[[], None]]] = []
CACHES: Final[list[Callable[[], None]]] = []


def target(function: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    """Register a target."""
    TARGETS[function.__name__] = function
    return function


def accepts(read: Callable[[Any], object], data: object, *refusals: type[Exception]) -> bool:
    """Return whether a reader takes the data; it may refuse with typed errors only."""
    said = "accepted"
    try:
        read(data)
    except (StokerError, *refusals) as error:
        said = str(error)
    assert said, "a refusal says why"
    return said == "accepted"


@cache
def folder() -> Path:
    """Return a folder that `release` removes."""
    made = tempfile.TemporaryDirectory(prefix="stoker-fuzz-")
    CLEANUP.append(made.cleanup)
    return Path(made.name)


def prepared(function: Callable[[], Made]) -> Callable[[], Made]:
    """Make something once, and again after `release`."""
    made = cache(function)
    CACHES.append(made.cache_clear)
    return made


def release() -> None:
    """Remove what targets prepared."""
    for clean_up in (*CLEANUP, *CACHES, folder.cache_clear):
        clean_up()
    CLEANUP.clear()
