"""Commands on a full disk: one line, nothing half done, and the same command works later.

A limit on the size of files, for this process, stands for the disk.
"""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import call

from stoker.dataset import schema, write

ROWS = 20


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a dataset, and values of a further field."""
    monkeypatch.chdir(tmp_path)
    write("packed", [schema.scalar("x", "int64")], [{"x": number} for number in range(ROWS)])
    lines = "".join(f"{row},{row}\n" for row in range(ROWS))
    (tmp_path / "values.csv").write_text("row,y\n" + lines)
    return tmp_path


def tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


IN_PACKED = (
    1,
    "stoker: cannot write to packed: File too large; check the disk, and run the same command"
    " again\n",
)
OF_OUTPUT = (
    75,
    "stoker: cannot write the output: File too large; free some space, or send it elsewhere\n",
)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("split packed a=0.5 b=rest", IN_PACKED),
        ("add-column packed y values.csv", IN_PACKED),
        ("keygen some.key", OF_OUTPUT),
    ],
)
def test_nothing_is_half_done(folder: Path, words: str, told: tuple[int, str]) -> None:
    before = tree(folder)
    with full_disk():
        code, printed, errors = call(*words.split())
    assert (code, errors, printed) == (*told, "")
    assert tree(folder) == before
    code, _, errors = call(*words.split())
    assert (code, errors) == (0, "")
    assert tree(folder) != before


def test_what_a_killed_run_left_goes_with_the_next_one(folder: Path) -> None:
    (folder / "packed/.packing").mkdir()
    (folder / "packed/.packing/00001.7.partial").write_bytes(b"half of a file")
    assert call("add-column", "packed", "y", "values.csv")[0] == 0
    assert not (folder / "packed/.packing").exists()
