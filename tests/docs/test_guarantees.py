"""docs/guarantees.md names tests that exist and are run by default."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def named() -> list[tuple[str, str]]:
    """(file, function) of each test that the page names."""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


def test_every_guarantee_names_its_test():
    lines = (ROOT / "docs" / "guarantees.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and "---" not in line]
    assert all("::test_" in line for line in rows if line != "| guarantee | test |")
    assert len(named()) >= len([line for line in rows if "::" in line]) > 30


def test_the_tests_that_are_named_exist():
    missing = [f"{file}::{name}" for file, name in named() if name not in functions(ROOT / file)]
    assert missing == []


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
