"""tools/new_op.py writes an op that is complete but for its arithmetic."""

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
print(ops.registered()["warmth"].__module__)
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
    (tmp_path / "docs").mkdir()
    for name in ("docs/ops.md", "pyproject.toml"):
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_a_new_op_is_registered_listed_documented_and_sound(copy: Path) -> None:
    made = run(copy, "tools/new_op.py", "warmth", "--room", "color", "--root", str(copy))
    assert made.returncode == 0, made.stderr
    checked = run(copy, "-c", CHECK)
    assert checked.stdout == "stoker.ops.color.warmth\n", checked.stderr
    assert run(copy, "tools/op_lists.py", "--check").returncode == 0
    style = run(copy, "-m", "ruff", "check", "server/stoker/ops/color", "tests/ops/color")
    assert style.returncode == 0, style.stdout
    text = (copy / "docs/ops.md").read_text()
    assert text.index("## vertical_flip") < text.index("## warmth") < text.index("## ycbcr_to_rgb")


@pytest.mark.parametrize(
    ("name", "message"), [("Warmth", "expected lower case words"), ("hue", "hue.py exists")]
)
def test_a_wrong_name_writes_nothing(copy: Path, name: str, message: str) -> None:
    before = sorted(copy.rglob("*.py"))
    made = run(copy, "tools/new_op.py", name, "--room", "color", "--root", str(copy))
    assert made.returncode != 0
    assert message in made.stderr
    assert sorted(copy.rglob("*.py")) == before
