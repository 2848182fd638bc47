"""tools/new_op.py writes an op that lacks only its arithmetic."""

import json
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


@pytest.mark.slow
@pytest.mark.parametrize("room", ["color", "mixes"])
def test_a_new_op_is_registered_listed_documented_and_sound(copy: Path, room: str) -> None:
    made = run(copy, "tools/new_op.py", "warmth", "--room", room, "--root", str(copy))
    assert made.returncode == 0, made.stderr
    checked = run(copy, "-c", CHECK)
    assert checked.stdout == f"stoker.ops.{room}.warmth\n", checked.stderr
    assert run(copy, "tools/op_lists.py", "--check").returncode == 0
    new = (f"server/stoker/ops/{room}/warmth.py", f"tests/ops/{room}/test_warmth.py")
    for style in (("check",), ("format", "--check")):
        done = run(copy, "-m", "ruff", *style, *new)
        assert done.returncode == 0, done.stdout
    text = (copy / "docs/ops.md").read_text()
    assert text.index("## vertical_flip") < text.index("## warmth") < text.index("## ycbcr_to_rgb")
    numeric = (copy / "docs/contracts/numeric.md").read_text()
    vectors = [case["op"] for case in json.loads(numeric.split("```json\n")[1].split("```")[0])]
    of_pixels = room != "mixes"
    assert vectors.count("warmth") == of_pixels
    assert ("\n## warmth\n" in numeric) == of_pixels
    sizes = section(text, "One decision for values of different sizes")
    assert (", to_rgb, warmth, window, ycbcr_to_rgb |" in sizes) == of_pixels
    assert ("| k" in section(text, "warmth")) == of_pixels


@pytest.mark.parametrize(
    ("name", "message"), [("Warmth", "expected lower case words"), ("hue", "hue.py exists")]
)
def test_a_wrong_name_writes_nothing(copy: Path, name: str, message: str) -> None:
    before = sorted(copy.rglob("*.py"))
    made = run(copy, "tools/new_op.py", name, "--room", "color", "--root", str(copy))
    assert made.returncode != 0
    assert message in made.stderr
    assert sorted(copy.rglob("*.py")) == before
