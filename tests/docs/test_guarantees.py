"""Tests that pages name exist; docs/guarantees.md has an `as_a_user` one for each guarantee."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"


def rows() -> list[str]:
    """The lines of the tables, without their heads."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [line for line in lines if line != "| guarantee | test |" and "---" not in line]


def named(text: str) -> list[tuple[str, str]]:
    """(file, function) of each test that a text names."""
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


def test_every_guarantee_names_its_test():
    assert len(rows()) > 150
    assert [row for row in rows() if not named(row)] == []


@pytest.mark.parametrize("page", ["docs/guarantees.md", "CONTRIBUTING.md", "Makefile"])
def test_the_tests_that_are_named_exist(page):
    tests = re.findall(r"\b(tests/[\w/]+\.py)(?:::(\w+))?", (ROOT / page).read_text())
    assert tests
    assert [file for file, name in tests if not name and not (ROOT / file).is_file()] == []
    assert [f"{file}::{name}" for file, name in tests if name and name not in functions(file)] == []


def test_every_guarantee_has_a_test_that_starts_stoker_as_a_user_does():
    assert [row for row in rows() if not any(as_a_user(*test) for test in named(row))] == []


@functools.cache
def functions(file: str) -> dict[str, str]:
    """The tests of a file, each with its decorators and the marks of the module, as text."""
    path = ROOT / file
    tree = ast.parse(path.read_text()) if path.is_file() else ast.Module([], [])
    module = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return {
        node.name: " ".join([*module, *map(ast.unparse, node.decorator_list)])
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def as_a_user(file: str, name: str) -> bool:
    """Whether the marker is on a test, and not taken from it."""
    marks = functions(file).get(name, "")
    return "mark.as_a_user" in marks and "as_a_user(False)" not in marks
