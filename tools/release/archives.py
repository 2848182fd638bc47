"""The archives of a release: built twice from the commit, compared, and looked into.

Times in the archives are those of the commit, so that everyone who builds it gets the same bytes.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("client", "protocol", "server")
IN_SDIST: Final = (
    *("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "constraints.txt", "Makefile"),
    *("docs/README.md", "tests/conftest.py"),
)


class ArchiveError(Exception):
    """An archive is not what a release needs; says which one and why."""


def build(out: Path) -> tuple[Path, Path]:
    """Build sdist and wheel of the commit into a folder, twice; return their paths.

    Raises:
        ArchiveError: the builds differ, or an archive holds what it should not.
    """
    commit = _git("rev-parse", "HEAD").decode().strip()
    first = _built(commit, out)
    with tempfile.TemporaryDirectory() as folder:
        for one, again in zip(first, _built(commit, Path(folder)), strict=True):
            if one.read_bytes() != again.read_bytes():
                raise ArchiveError(f"{one.name}: two builds of one commit have other bytes")
    sdist, wheel = first
    check_wheel(wheel, sources(commit))
    check_sdist(sdist)
    return sdist, wheel


def _built(commit: str, out: Path) -> tuple[Path, Path]:
    with tempfile.TemporaryDirectory() as folder:
        _git("archive", "--format=tar", commit, into=Path(folder))
        when = {"SOURCE_DATE_EPOCH": _git("log", "-1", "--format=%ct", commit).decode().strip()}
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), folder]
        subprocess.run(command, env=os.environ | when, check=True, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def _git(*words: str, into: Path | None = None) -> bytes:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True)
    if into:
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(into, filter="data")
    return done.stdout


def sources(commit: str) -> set[str]:
    """Return the files of the packages that a commit has, by their names in a wheel."""
    names = _git("ls-tree", "-r", "--name-only", commit, *SOURCES).decode().splitlines()
    return {name.split("/", 1)[1] for name in names}


def check_wheel(wheel: Path, expected: set[str]) -> None:
    """Refuse a wheel that lacks a file of the packages, or has any other.

    Raises:
        ArchiveError: names the files.
    """
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    missing, more = sorted(expected - inside), sorted(inside - expected)
    if missing or more:
        raise ArchiveError(f"{wheel.name}: it lacks {missing}, and has {more} besides the packages")
    packages = {"/".join(name.split("/")[:2]) for name in inside if name.count("/") > 1}
    untyped = sorted(name for name in packages if f"{name}/py.typed" not in inside)
    if untyped:
        raise ArchiveError(f"{wheel.name}: {untyped} have no py.typed")


def check_sdist(sdist: Path) -> None:
    """Refuse an sdist from which nobody can build, test and read.

    Raises:
        ArchiveError: names what is missing.
    """
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    missing = sorted({*IN_SDIST} - inside)
    if missing:
        raise ArchiveError(f"{sdist.name}: it lacks {missing}")
