"""The repository, photographs of the Law's rig, and a way to run a page."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import stand_ins
import warm_pages
from law_rig import photographs, source
from warm import Script

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
    two classes. Daemons listen in a folder of the test's. The process and its daemons are forked
    from some that have imported what they use, or with `new=True` fresh interpreters.
    """
    (tmp_path / "photos").symlink_to(source)

    def run(page: Path, replaced: dict[str, str] | None = None, new: bool = False) -> str:
        given = stand_ins.replaced(page, session_folder) | (replaced or {})
        runner = RUN_PAGE if new else warm_pages.__file__
        words = ["-W", "error", runner, "--here", page, *itertools.chain(*given.items())]
        options = {
            "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path,
        }  # fmt: skip
        with (
            subprocess.Popen([sys.executable, *words], **options)
            if new
            else Script(*words, imports=warm_pages.IMPORTED, daemons=True, **options)
        ) as done:
            printed, faults = done.communicate()
        if done.returncode:
            pytest.fail(f"{printed}{faults}", pytrace=False)
        return printed

    return run
