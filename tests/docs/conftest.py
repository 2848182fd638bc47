"""The repository, photographs of the Law's rig, and a way to run a page."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from law_rig import photographs, source

__all__ = ["photographs", "source"]

ROOT = Path(__file__).parents[2]
RUN_PAGE = Path(__file__).with_name("run_page.py")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return ROOT


@pytest.fixture
def run_page(tmp_path: Path, source: Path, session_folder: Path) -> Callable[..., str]:
    """run_page(page, {old: new}) -> what it printed; fails with the page and line of a fault.

    The page runs in a process and a folder of its own, in which `photos` are images and masks of
    two classes. Daemons listen in a folder of the test's.
    """
    (tmp_path / "photos").symlink_to(source)

    def run(page: Path, replaced: dict[str, str] | None = None) -> str:
        given = {"ipc:///run/stoker/": f"ipc://{session_folder}/run/", **(replaced or {})}
        pairs = [word for pair in given.items() for word in pair]
        done = subprocess.run(
            [sys.executable, "-W", "error", str(RUN_PAGE), str(page), *pairs],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"{done.stdout}{done.stderr}", pytrace=False)
        return done.stdout

    return run
