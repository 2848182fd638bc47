"""Every flag of commands with unexpected values: one line, and no traceback."""

import importlib
import typing

import pytest
import typer
from commands import call

from stoker.server.__main__ import COMMANDS

ODD = (
    "", "-1", "1e9", "nan", "inf", "9" * 30, "x", "/nowhere", "/dev/null", "é", "=", "a:b",
    '{"a": 1}', "x\ny", "x" * 300, "tcp://x", "ipc://x",
)  # fmt: skip
BASE = {
    "serve": ["--workers", "0"],  # refused, so no daemon starts
    "config": [],
    "ls": ["/nowhere"],
    "verify": ["/nowhere"],
    "pack": ["/nowhere", "/nowhere/out"],
    "split": ["/nowhere", "train=0.5"],
    "add-column": ["/nowhere", "x", "/nowhere.csv"],
    "explain": ["json:loads", "--dataset", "/nowhere"],
    **{name: ["ipc:///nowhere/s"] for name in ("status", "top", "stacks", "resize")},
}


@pytest.mark.parametrize("command", BASE)
def test_odd_flags_are_one_line(command):
    flags = flags_of(command)
    assert flags
    for flag in flags:
        for value in ODD:
            code, _, errors = call(command, *BASE[command], f"{flag}={value}", COLUMNS="300")
            assert code in (0, 1, 2, 75, 78), (flag, value)
            assert "Traceback" not in errors, (flag, value, errors)


def flags_of(command: str) -> list[str]:
    """The flags of a command that take a value."""
    module, name = COMMANDS[command]
    hints = typing.get_type_hints(
        getattr(importlib.import_module(module), name), include_extras=True
    )
    return [
        "--" + parameter.replace("_", "-")
        for parameter, hint in hints.items()
        if "bool" not in str(hint)
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, typer.models.OptionInfo)
        and not mark.param_decls
        and parameter != "ready_fd"  # a descriptor of this process
    ]
