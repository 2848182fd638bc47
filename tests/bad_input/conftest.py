"""Real folders, the real command line, and what a user sees of a mistake."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import skimage.data
from PIL import Image


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A small class folder of real photographs."""
    root = tmp_path / "photos"
    photo = skimage.data.astronaut()
    for number in range(6):
        folder = root / ("even", "odd")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        crop = photo[number * 20 : number * 20 + 96, 60:180]
        Image.fromarray(crop).save(folder / f"{number}.jpg", quality=92)
    return root


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Parallel folders: images and masks."""
    root = tmp_path / "pairs"
    photo = skimage.data.coffee()
    for number in range(6):
        crop = photo[number * 20 : number * 20 + 96, 60:180]
        for folder in ("images", "masks"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(root / "images" / f"{number}.jpg", quality=92)
        mask = (crop.mean(2) > 120).astype(np.uint8)
        Image.fromarray(mask).save(root / "masks" / f"{number}.png")
    return root


@pytest.fixture
def stoker():
    """Run the command line; returns code, out and err, and checks that no traceback shows."""

    def run(*arguments: object, timeout: float = 60) -> SimpleNamespace:
        done = subprocess.run(
            [sys.executable, "-m", "stoker.server", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture
def daemon_for(tmp_path: Path):
    """A context manager: `daemon_for(dataset, *flags)` runs a real daemon, yields its address."""

    @contextmanager
    def run(dataset: Path, *flags: str) -> Iterator[str]:
        folder = tmp_path / "run"
        folder.mkdir(mode=0o700)
        address = f"ipc://{folder}/stoker.sock"
        read, write = os.pipe()
        command = [sys.executable, "-m", "stoker.server", "serve", "--address", address]
        command += ["--dataset", f"photos={dataset}", "--workers", "1", "--ready-fd", str(write)]
        process = subprocess.Popen(
            [*command, *flags],
            pass_fds=[write],
            stderr=subprocess.PIPE,
        )
        os.close(write)
        try:
            with os.fdopen(read) as ready:
                assert select.select([ready], [], [], 60)[0], "the daemon did not come up"
                assert "address" in json.loads(ready.readline())
            yield address
        finally:
            process.terminate()
            log = process.communicate(timeout=30)[1].decode()
        assert process.returncode == 0, log
        assert "Traceback" not in log, log

    return run
