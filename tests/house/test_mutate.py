"""tools/mutate.py, and its table: each mutation fits the code, so that the tool can try it."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def mutate(root: Path) -> ModuleType:
    """The tool."""
    found = importlib.util.spec_from_file_location("mutate", root / "tools/mutate.py")
    tool = importlib.util.module_from_spec(found)
    sys.modules["mutate"] = tool  # its dataclass looks there
    found.loader.exec_module(tool)
    yield tool
    del sys.modules["mutate"]


def test_each_mutation_changes_one_place_and_names_tests(root, mutate):
    listed = mutate.mutations()
    assert len({one.name for one in listed}) == len(listed) >= 50
    for one in listed:
        right = (root / one.file).read_text()
        wrong = one.applied(right)
        assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(right)), one.name
        assert one.tests, one.name
        assert [test for test in one.tests if not (root / test).exists()] == [], one.name


def test_a_text_that_is_not_there_once_is_refused(mutate):
    one = mutate.Mutation("sum", "sum.py", "a + b", "a - b", ("test_sum.py",))
    assert one.applied("total = a + b\n") == "total = a - b\n"
    for text in ("total = b + a\n", "total = a + b + (a + b)\n"):
        with pytest.raises(ValueError, match=r"'sum': expected its text once in sum\.py"):
            one.applied(text)


@pytest.mark.slow
def test_survivors_are_named(mutate, tmp_path, monkeypatch, capsys):
    """One of two mutations of a small repository is caught."""
    monkeypatch.setattr(mutate, "copied", lambda into: into)
    monkeypatch.setattr(mutate.tempfile, "TemporaryDirectory", lambda **_: Kept(tmp_path))
    (tmp_path / "signs.py").write_text("def sign(x):\n    return (x > 0) - (x < 0)\n")
    (tmp_path / "test_signs.py").write_text(
        "from signs import sign\n\n\ndef test_sign():\n    assert sign(3) == 1\n"
    )
    rows = [("plus", "x > 0", "x > 9"), ("minus", "x < 0", "x < -9")]
    made = [
        mutate.Mutation(name, "signs.py", *change, ("test_signs.py",)) for name, *change in rows
    ]
    monkeypatch.setattr(mutate, "mutations", lambda: made)
    assert mutate.main([]) == 1
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[-1]) for line in words[:2]] == [
        ("caught", "plus"),
        ("SURVIVED", "minus"),
    ]
    assert " ".join(words[2]) == "1 of 2 survived"


class Kept:
    """In place of a temporary folder: one that stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> str:
        return str(self.folder)

    def __exit__(self, *_: object) -> None:
        pass
