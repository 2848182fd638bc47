"""Fixtures of the tests of stoker.rng."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Run a script in a fresh interpreter with a cache under tmp_path; return its output."""

    def run(script: str, *args: str, cache: Path | None = None, **environment: str) -> str:
        env = {
            **os.environ,
            "XDG_CACHE_HOME": str(cache or tmp_path / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPYCACHEPREFIX": "",
            **environment,
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *args],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
