"""tools/fuzz.py without atheris: shares of the runs, where it cannot run, what is stored."""

import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgpack
import pytest
import targets

TOOL = Path(__file__).parents[2] / "tools/fuzz.py"


@pytest.fixture
def tool() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("stoker_fuzz_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield made
    del sys.modules[spec.name]


def test_each_target_gets_20_000_of_a_million(tool) -> None:
    found = tool.shares(sorted(targets.TARGETS), 10**6)
    assert set(tool.SLOW) <= set(found) == set(targets.TARGETS)
    assert min(found.values()) == 20_000
    assert 10**6 <= sum(found.values()) < 10**6 + len(found)


def test_a_few_runs_are_divided_too(tool) -> None:
    assert tool.shares(["manifest"], 100) == {"manifest": 100}
    assert tool.shares(["manifest", "key"], 100) == {"manifest": 2, "key": 98}


IMPORTED = """
import runpy
import sys

tool = runpy.run_path(sys.argv[1])
tool["find_modules"]()
import targets

print(all(tool["inputs"](name) for name in targets.TARGETS if name not in tool["SLOW"]))
"""


@pytest.mark.slow
def test_the_tool_finds_all_that_targets_and_seeds_import(tmp_path) -> None:
    """Outside of pytest, whose settings name more folders of modules."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, TOOL],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_where_atheris_has_no_wheel(tool, monkeypatch, machine) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(sys, "platform", "linux")
    known = machine == "x86_64" and sys.version_info[:2] in tool.PYTHONS
    assert (tool.supported() == "") == known
    assert known or f"and this is linux on {machine} (glibc) with Python" in tool.supported()


def test_the_smallest_inputs_that_reach_all_lines_are_stored(tool, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(tool, "HERE", tmp_path)
    found = tmp_path / "found"
    found.mkdir()
    for number, data in enumerate([b"aaaa", b"aaaaaaa", b"", b"bb"]):
        (found / str(number)).write_bytes(data)
    try:
        assert tool.store("key", targets.TARGETS["key"], found) == 1
    finally:
        targets.release()
    assert msgpack.unpackb((tmp_path / "corpus/key.msgpack").read_bytes()) == [b""]
