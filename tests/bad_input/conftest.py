"""Real folders, the real command line, and what a user sees of a mistake."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import skimage.data
from daemons import serving
from PIL import Image
from warm import Script

STOKER = """
import sys
from stoker.server.__main__ import main
sys.argv[0] = "stoker"
main()
"""
COMMANDS = ["stoker.server.commands.dataset_commands", "typer._adapters"]
"""Modules that the commands import."""


def write_photos(root: Path) -> Path:
    """Write a small class folder of real photographs."""
    photo = skimage.data.astronaut()
    for number in range(6):
        folder = root / ("even", "odd")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        crop = photo[number * 20 : number * 20 + 96, 60:180]
        Image.fromarray(crop).save(folder / f"{number}.jpg", quality=92)
    return root


def write_pairs(root: Path) -> Path:
    """Write parallel folders: images and masks."""
    photo = skimage.data.coffee()
    for number in range(6):
        crop = photo[number * 20 : number * 20 + 96, 60:180]
        for folder in ("images", "masks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(root / "images" / f"{number}.jpg", quality=92)
        mask = (crop.mean(2) > 120).astype(np.uint8)
        Image.fromarray(mask).save(root / "masks" / f"{number}.png")
    return root


def run_stoker(*arguments: object, timeout: float = 60) -> SimpleNamespace:
    """Run the command line; return code, out and err, and check that no traceback shows.

    It runs in a process forked from a warm one; `tests/dataset` executes the commands.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Script("-c", STOKER, *arguments, imports=COMMANDS, **pipes) as done:
        out, err = done.communicate(timeout=timeout)
    assert "Traceback" not in err + out, err
    return SimpleNamespace(code=done.returncode, out=out, err=err)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A small class folder of real photographs."""
    return write_photos(tmp_path / "photos")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Parallel folders: images and masks."""
    return write_pairs(tmp_path / "pairs")


@pytest.fixture
def stoker() -> Callable[..., SimpleNamespace]:
    """Run the command line: `stoker(*arguments)` has code, out and err."""
    return run_stoker


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a daemon with little memory that serves both, packed; tests leave it alive."""
    folder = tmp_path_factory.mktemp("served")
    flags = []
    for name, write in (("photos", write_photos), ("pairs", write_pairs)):
        done = run_stoker("pack", write(folder / name), folder / "packed" / name)
        assert done.code == 0, done.err
        flags.append(f"--dataset={name}={folder}/packed/{name}")
    with serving(folder, *flags, "--workers=1", "--memory-limit=1MiB") as daemon:
        yield daemon.address
