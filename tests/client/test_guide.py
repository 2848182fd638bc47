"""docs/client.md: its table is the signature, its code compiles, its errors exist."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from stoker.client import Connection, Group, Loader, Shuffle, Statistics
from stoker.protocol import errors

GUIDE = (Path(__file__).parents[2] / "docs/client.md").read_text()


def cells(title: str) -> list[list[str]]:
    part = GUIDE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = [number for number, row in enumerate(rows) if set(row[0]) <= {"-"}]
    return [row for number, row in enumerate(rows) if not {number, number + 1} & {*heads}]


def test_the_arguments_are_those_of_the_signature() -> None:
    *parameters, unknown = inspect.signature(Loader).parameters.values()
    assert unknown.kind is unknown.VAR_KEYWORD  # arguments that other loaders have
    expected = [
        [f"`{p.name}`", "" if p.default is p.empty else f"`{p.default!r}`".replace("'", '"')]
        for p in parameters
    ]
    table = cells("Arguments")
    assert [row[:2] for row in table if "." not in row[0]] == expected
    records = [
        [
            f"`{record.__name__}.{field.name}`",
            ""
            if field.default is dataclasses.MISSING
            else f"`{field.default!r}`".replace("'", '"'),
        ]
        for record in (Shuffle, Group, Connection)
        for field in dataclasses.fields(record)
    ]
    assert [row[:2] for row in table if "." in row[0]] == records
    first, *others = parameters
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in others)
    documented = inspect.getdoc(Loader).split("Args:")[1].split("Raises:")[0]
    names = re.findall(r"^    (\w+): ", documented, re.M)
    assert names == [parameter.name for parameter in parameters]


def test_the_code_compiles() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    assert len(blocks) >= 6
    for block in blocks:
        for call in ast.walk(ast.parse(block)):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Loader":
                inspect.signature(Loader).bind(
                    *call.args, **{keyword.arg: None for keyword in call.keywords}
                )


@pytest.mark.parametrize("row", cells("Errors"), ids=lambda row: row[0])
def test_the_errors_exist(row: list[str]) -> None:
    for name in re.findall(r"`(\w+)`", row[0]):
        assert issubclass(getattr(errors, name), errors.StokerError)


def test_the_counters_exist() -> None:
    part = GUIDE.split("`loader.statistics()` counts:")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", part)) == set(Statistics.__dataclass_fields__)
