"""Every command of docs/inspecting.md runs as it stands there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from stoker.server.commands.explain import explain
from stoker.server.commands.preview import preview
from stoker.server.commands.replay import replay

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "inspecting.md").read_text()
LINES = [line for block in re.findall(r"```console\n(.*?)```", PAGE, re.S) for line in
         block.splitlines()]  # fmt: skip
COMMANDS = {"replay": replay, "preview": preview, "explain": explain}


@pytest.mark.parametrize("line", LINES)
def test_command(line, run, photos, tmp_path, monkeypatch):
    shutil.copy(HERE / "command_pipelines.py", tmp_path / "my_pipelines.py")
    (tmp_path / "photos").symlink_to(photos)
    monkeypatch.chdir(tmp_path)
    program, command, *arguments = shlex.split(line)
    assert program == "stoker"
    assert run(COMMANDS[command], *arguments)
    if "--out" in arguments:
        assert (tmp_path / arguments[arguments.index("--out") + 1]).exists()


def test_the_page_shows_every_command():
    assert {shlex.split(line)[1] for line in LINES} == set(COMMANDS)
