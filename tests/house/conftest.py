"""The folder of the repository, the files that belong to it, and its code."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("protocol", "server", "client")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def tracked() -> list[Path]:
    """Every file of the repository that git does not ignore, and that is still there."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [ROOT / name for name in listing.split("\0") if name]
    found = [path for path in files if path.is_file()]
    assert ROOT / "pyproject.toml" in found
    return found


@pytest.fixture(scope="session")
def sources() -> dict[str, ast.Module]:
    """The syntax tree of every module of the product, by its path from the top folder."""
    paths = [path for top in SOURCE_ROOTS for path in (ROOT / top / "stoker").rglob("*.py")]
    found = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}
    assert len(found) > 10
    return found
