"""tools/alone.py runs each part of the suite by itself and reports all that fail."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SHARED = """
known = []

def test_a_is_first():
    known.append("a")

def test_b_needs_a():
    assert known == ["a"]
"""
LEANS = """
import sys

def test_leans_on_the_other_file():
    assert "test_shared" in sys.modules, "other file missing"
"""


def alone(root: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/alone.py", *map(str, words)], cwd=root, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_file_that_needs_another_fails_and_the_rest_is_run(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_leans.py").write_text(LEANS)
    (tmp_path / "test_shared.py").write_text(SHARED)
    done = alone(root, tmp_path)
    assert done.returncode == 1, done.stderr
    first, *_ = done.stdout.splitlines()
    assert first.startswith("failed (1)")
    assert first.endswith(f"CPU-s  {tmp_path}/test_leans.py")
    assert "other file missing" in done.stdout
    summary = done.stdout.partition("by cost, ")[2].splitlines()
    assert sorted(line.split()[0] for line in summary[1:3]) == ["failed", "passed"]
    assert summary[-1] == "1 of 2 failed alone"


def test_files_of_a_folder_run_together_and_a_path_given_twice_runs_once(
    root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "together"
    folder.mkdir()
    (folder / "test_shared.py").write_text(SHARED)
    (folder / "test_tested.py").write_text(LEANS)  # pytest imports test_shared before it
    done = alone(root, "--each", "path", folder, folder)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0].endswith(str(folder))
    assert done.stdout.splitlines()[-1] == "all 1 pass alone"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tests/op"], "expected a test file or a folder of tests, got"),
        (["tests/golden"], "expected files test_*.py below"),
        (["--each", "path"], "expected a test file or a folder after the options, got none"),
        (["--reverse", "tests/law"], "unrecognized arguments: --reverse"),
        (["tests/law", "--each", "path", "tests/golden"], "expected files test_*.py below"),
        (["--each", "folder", "tests/law"], "invalid choice: 'folder'"),
    ],
)
def test_what_is_misspelled_or_missing_runs_nothing(
    root: Path, words: list[str], message: str
) -> None:
    done = alone(root, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_reversed_runs_the_last_test_of_the_last_file_first(root: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--reversed"]
    files = ["tests/house/test_layout.py", "tests/house/test_new_op.py"]
    done = subprocess.run(
        [*command, *files], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line]
    defined = [
        f"{file}::{name}"
        for file in files
        for name in re.findall(r"^def (test_\w+)", (root / file).read_text(), re.M)
    ]
    assert list(dict.fromkeys(found)) == defined[::-1]
