"""Folders with modules of users: their pipelines, functions and sources."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def importing_from(folder: Path) -> Iterator[Path]:
    """Import modules of a folder first, in this process and in those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield folder
