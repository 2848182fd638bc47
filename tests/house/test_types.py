"""Type checkers and editors accept calls: mypy --strict over typed_calls.py."""

import inspect
import re
import subprocess
import sys
import typing
from collections import defaultdict
from pathlib import Path

import pytest

from stoker.client import Loader, argument_types
from stoker.client.loader import _FIXED


@pytest.mark.slow
def test_right_calls_are_accepted_and_wrong_ones_refused(root: Path) -> None:
    """pyproject.toml says `strict`."""
    path = "tests/house/typed_calls.py"
    command = [sys.executable, "-m", "mypy", "--no-pretty", "--hide-error-context", path]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    found = defaultdict(list)
    for line, message in re.findall(r"^\S+:(\d+): error: (.*)$", done.stdout, re.M):
        found[int(line)].append(message)
    wanted = {
        number: line.split("# error: ")[1]
        for number, line in enumerate((root / path).read_text().splitlines(), 1)
        if "  # error: " in line
    }
    assert found.keys() == wanted.keys(), done.stdout + done.stderr
    for number, text in wanted.items():
        assert any(text in message for message in found[number]), (number, text, found[number])


def test_the_types_of_arguments_are_those_of_the_signature() -> None:
    everything = inspect.signature(Loader).parameters
    names = everything.keys() - {"address_or_path", "as_tuple", "as_dict", "unknown"}
    assert argument_types.LoaderArguments.__annotations__.keys() == names
    assert names - argument_types.EvaluationArguments.__annotations__.keys() == _FIXED
    for name, declared in argument_types.LoaderArguments.__annotations__.items():
        plain = typing.get_args(declared)[0] if name == "pipeline" else declared
        assert plain == everything[name].annotation, name
    assert argument_types.LoaderArguments.__required_keys__ == {"pipeline"}
