"""What README.md and docs/ show is true: code parses, commands exist, and the example runs."""

import ast
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from PIL import Image

PAGES = ("README.md", "CONTRIBUTING.md", "docs/getting-started.md", "deploy/README.md")
STOKER = str(Path(sys.executable).with_name("stoker"))


def blocks(root: Path, page: str, language: str) -> list[str]:
    text = (root / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def example(root: Path) -> str:
    """The block of README.md that is marked to be run."""
    mark = f"<!-- run: {Path(__file__).relative_to(root)} -->\n```python\n"
    return (root / "README.md").read_text().split(mark, 1)[1].split("\n```\n", 1)[0] + "\n"


def commands(root: Path) -> list[list[str]]:
    """Every `stoker ...` of every console block, options with values cut."""
    lines = [
        line
        for page in PAGES
        for block in blocks(root, page, "console")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("stoker ")]


@pytest.mark.parametrize("page", PAGES)
def test_python_parses(root: Path, page: str) -> None:
    for block in blocks(root, page, "python"):
        ast.parse(textwrap.dedent(block))


def test_the_example_is_short(root: Path) -> None:
    lines = [line for line in example(root).splitlines() if line.strip()]
    assert 10 < len(lines) <= 20


def test_the_two_commands_are_targets(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    named = re.findall(r"^make ([a-z]+)", "\n".join(blocks(root, "README.md", "console")), re.M)
    assert named == ["demo", "test"]
    assert all(re.search(rf"^{name}: \$\(STAMP\)", makefile, re.MULTILINE) for name in named)


@pytest.mark.slow
def test_commands_and_options_exist(root: Path) -> None:
    found = commands(root)
    assert {command[1] for command in found} >= {"pack", "serve", "ls", "verify"}
    for name in {command[1] for command in found}:
        done = subprocess.run([STOKER, name, "--help"], capture_output=True, text=True, check=True)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
        used = {word for command in found if command[1] == name for word in command[2:]}
        options = {word.split("=")[0] for word in used if word.startswith("--")} - {"--help"}
        assert {option for option in options if not re.search(rf"{option}\b", plain)} == set()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_runs(root: Path, tmp_path: Path) -> None:
    for number in range(160):
        folder = tmp_path / "photos" / ("cat", "dog")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        colour = (number, 255 - number, 100)
        Image.new("RGB", (60 + number % 7, 50), colour).save(folder / f"{number}.jpg")
    (tmp_path / "script.py").write_text(example(root))
    pack = next(command for command in commands(root) if command[1] == "pack")
    for command in ([STOKER, *pack[1:]], [sys.executable, "script.py"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    assert all("torch.Size([64, 3, 224, 224])" in line for line in lines)
