"""tools/new_op.py writes an op that lacks only its arithmetic."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = """
from stoker import ops
from stoker.ops.testing import check_op
check_op(ops.Warmth())
print(ops.lookup("warmth").__module__)
"""


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python on a copy of the repository."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "server")}
    return subprocess.run(
        [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    without = shutil.ignore_patterns("__pycache__")
    for name in ("server", "tools", "tests/ops"):
        shutil.copytree(root / name, tmp_path / name, ignore=without)
    (tmp_path / "docs/contracts").mkdir(parents=True)
    for name in ("docs/ops.md", "docs/contracts/numeric.md", "pyproject.toml"):
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


def section(page: str, name: str) -> str:
    """The text of a section, up to the next one."""
    return page.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]


def changed(root: Path, copy: Path) -> set[str]:
    """The files of the copy that the repository lacks, or has with other bytes."""
    files = [path for path in copy.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = [str(path.relative_to(copy)) for path in files if ".pytest_cache" not in path.parts]
    kept = {name for name in names if (root / name).exists()}
    equal = {name for name in kept if (root / name).read_bytes() == (copy / name).read_bytes()}
    return set(names) - equal


@pytest.mark.slow
@pytest.mark.parametrize("room", ["color", "mixes"])
def test_a_new_op_is_its_file_and_its_test_alone(root: Path, copy: Path, room: str) -> None:
    """The changelog is the third file; tools write all others, and the tests of all ops pass."""
    assert changed(root, copy) == set()
    made = run(copy, "tools/new_op.py", "warmth", "--room", room, "--root", str(copy))
    assert made.returncode == 0, made.stderr
    by_hand = {f"server/stoker/ops/{room}/warmth.py", f"tests/ops/{room}/test_warmth.py"}
    written = {"server/stoker/ops/__init__.pyi", "docs/ops.md"}
    written |= {"docs/contracts/numeric.md"} if room == "color" else set()
    assert changed(root, copy) == by_hand | written
    checked = run(copy, "-c", CHECK)
    assert checked.stdout == f"stoker.ops.{room}.warmth\n", checked.stderr
    assert run(copy, "tools/op_lists.py", "--check").returncode == 0
    for style in (("check",), ("format", "--check")):
        done = run(copy, "-m", "ruff", *style, *sorted(by_hand))
        assert done.returncode == 0, done.stdout
    tests = ("tests/ops/test_documents.py", "tests/ops/test_contract.py")
    chosen = "reference or has_a_vector or warmth or declares or has_examples"
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert done.returncode == 0, done.stdout
    text = (copy / "docs/ops.md").read_text()
    assert text.index("## vertical_flip") < text.index("## warmth") < text.index("## ycbcr_to_rgb")
    assert ("| 0 | applied if uniform < p | `apply` uint8 |" in section(text, "warmth")) == (
        room == "color"
    )


@pytest.mark.parametrize(
    ("name", "message"), [("Warmth", "expected lower case words"), ("hue", "hue.py exists")]
)
def test_a_wrong_name_writes_nothing(copy: Path, name: str, message: str) -> None:
    before = sorted(copy.rglob("*.py"))
    made = run(copy, "tools/new_op.py", name, "--room", "color", "--root", str(copy))
    assert made.returncode != 0
    assert message in made.stderr
    assert sorted(copy.rglob("*.py")) == before
