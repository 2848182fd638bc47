"""docs/contracts/scheduling.md names every setting with its default, and every counter."""

import dataclasses
import re
from pathlib import Path

from stoker.server.state.settings import Settings

PAGE = Path(__file__).parents[3] / "docs" / "contracts" / "scheduling.md"
ELSEWHERE = {
    "workers", "memory_limit_bytes", "datasets", "pipelines", "exit_with_last_client",
    "crash_policy", "sessions_limited_by", "integrity", "jpeg", "session_limit_bytes",
}  # fmt: skip


def rows(heading):
    text = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`(\w+)`", cell[0]), cell[1].strip()) for cell in cells]


def test_settings():
    told = {name: float(default) for (name,), default in rows("Settings")}
    known = {
        field.name: float(field.default)
        for field in dataclasses.fields(Settings)
        if field.name not in ELSEWHERE
    }
    assert told == known


def test_counters(rig):
    told = [name for names, _ in rows("Counters") for name in names]
    assert len(told) == len(set(told))
    assert set(told) == set(rig.counters())


def test_every_setting_is_described():
    described = re.findall(r"^        (\w+): ", Settings.__doc__, re.MULTILINE)
    assert described == [field.name for field in dataclasses.fields(Settings)]
