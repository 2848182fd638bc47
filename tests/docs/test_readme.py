"""What README.md and docs/ show is true: code parses, commands exist, and the example runs."""

import ast
import importlib
import re
from pathlib import Path

import pytest
import typer
from page_blocks import Block, blocks, pages
from run_page import commands

from stoker.server.__main__ import COMMANDS


def of(root: Path, page: str, language: str) -> list[Block]:
    return [block for block in blocks(root / page) if block.language == language]


def shown(root: Path) -> list[list[str]]:
    """Every `stoker ...` of every console block of every page, as words."""
    return [
        command
        for page in pages(root)
        for block in of(root, page, "console")
        for command in commands(block.text)
    ]


def test_python_parses(root: Path) -> None:
    for page in pages(root):
        for block in of(root, page, "python"):
            ast.parse(block.text, f"{page}, block at line {block.line}")


def test_the_example_is_short(root: Path) -> None:
    (example,) = of(root, "README.md", "python")
    assert 10 < len([line for line in example.text.splitlines() if line.strip()]) <= 20


def test_the_two_commands_are_targets(root: Path) -> None:
    makefile = (root / "Makefile").read_text()
    text = "\n".join(block.text for block in of(root, "README.md", "console"))
    named = re.findall(r"^make ([a-z]+)", text, re.M)
    assert named == ["demo", "test"]
    assert all(re.search(rf"^{name}: \$\(STAMP\)", makefile, re.MULTILINE) for name in named)


def options(name: str) -> set[str]:
    """The options of a `stoker` command."""
    module, attribute = COMMANDS[name]
    app = typer.Typer()
    app.command()(getattr(importlib.import_module(module), attribute))
    return {option for param in typer.main.get_command(app).params for option in param.opts}


def test_commands_and_options_exist(root: Path) -> None:
    found = shown(root)
    assert {command[1] for command in found} >= {"pack", "serve", "ls", "verify", "replay"}
    for _, name, *words in found:
        used = {word.split("=")[0] for word in words if word.startswith("--")} - {"--help"}
        assert used <= options(name), (name, words)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_runs(root: Path, run_page) -> None:
    """The command packs, the script trains; only the batches are smaller than README says."""
    lines = run_page(root / "README.md").splitlines()[-4:]
    assert [line.split()[:2] for line in lines] == [["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]]
    assert all("torch.Size([16, 3, 224, 224])" in line for line in lines)
