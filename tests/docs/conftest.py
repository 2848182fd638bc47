"""The repository, photographs of the Law's rig, and a way to run a page."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from law_rig import photographs, source

__all__ = ["photographs", "source"]

ROOT = Path(__file__).parents[2]
RUN_PAGE = Path(__file__).with_name("run_page.py")
WARM_PAGES = Path(__file__).with_name("warm_pages.py")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return ROOT


Run = Callable[[Path, dict[str, str], Path], tuple[int, str, str]]
"""(page, {old: new}, folder) -> exit status, standard output, standard error."""


@pytest.fixture(scope="session")
def warm() -> Iterator[Run]:
    """Run pages in processes forked from one that has imported what they use (`warm_pages`)."""
    server = subprocess.Popen(
        [sys.executable, "-W", "error", str(WARM_PAGES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )

    def run(page: Path, replaced: dict[str, str], folder: Path) -> tuple[int, str, str]:
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            request = [str(page), replaced, str(folder), out.name, err.name]
            server.stdin.write(json.dumps(request) + "\n")
            status = int(server.stdout.readline())
            return status, out.read().decode(), err.read().decode()

    with server:
        yield run
        server.stdin.close()
        assert server.wait(timeout=60) == 0


def fresh(page: Path, replaced: dict[str, str], folder: Path) -> tuple[int, str, str]:
    """Run a page in a fresh interpreter, as a reader does."""
    pairs = [word for pair in replaced.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(RUN_PAGE), str(page), *pairs],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def run_page(tmp_path: Path, source: Path, session_folder: Path, warm: Run) -> Callable[..., str]:
    """run_page(page, {old: new}) -> what it printed; fails with the page and line of a fault.

    The page runs in a process and a folder of its own, in which `photos` are images and masks of
    two classes. Daemons listen in a folder of the test's. The process is forked from one that has
    imported what pages use, or with `new=True` a fresh interpreter.
    """
    (tmp_path / "photos").symlink_to(source)

    def run(page: Path, replaced: dict[str, str] | None = None, new: bool = False) -> str:
        given = {"ipc:///run/stoker/": f"ipc://{session_folder}/run/", **(replaced or {})}
        status, printed, faults = (fresh if new else warm)(page, given, tmp_path)
        if status:
            pytest.fail(f"{printed}{faults}", pytrace=False)
        return printed

    return run
