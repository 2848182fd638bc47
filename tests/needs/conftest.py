"""Modules of this folder that pipelines and processes import by name."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def needs_folder() -> Iterator[Path]:
    """This folder, on the way of this process."""
    folder = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield folder


@pytest.fixture(scope="session")
def every_op(needs_folder: Path) -> ModuleType:
    """The pipeline of every op."""
    return importlib.import_module("every_op")


@pytest.fixture(scope="session")
def counted(needs_folder: Path) -> ModuleType:
    """Functions that count their calls."""
    return importlib.import_module("counted")
