"""Opened files that count as the data of users' code."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from stoker.server.workers import user_data_files
from stoker.server.workers.user_data_files import UserDataFiles, still_has

MODULE = """
import json
import os
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
open(HERE / "opened").close()
(HERE / "by_path").read_text()
np.load(HERE / "by_numpy.npy")
os.close(os.open(HERE / "by_system", os.O_RDONLY))
exec((HERE / "settings.py").read_text())
open(HERE / "log", "a").close()
open(HERE / "kept", "r+").close()
open(HERE / "kept").close()
open("/proc/self/stat").close()
open(json.__file__).close()
try:
    open(HERE / "missing")
except OSError:
    pass


def later(name):
    return open(HERE / name).close()
"""
COUNTED = {"opened", "by_path", "by_numpy.npy", "by_system", "settings.py"}


@pytest.fixture
def module(tmp_path, monkeypatch):
    import numpy as np  # noqa: PLC0415

    for name in (*COUNTED - {"by_numpy.npy"}, "kept", "later", "more"):
        (tmp_path / name).write_text("1")
    (tmp_path / "edited").write_text("22")
    np.save(tmp_path / "by_numpy.npy", np.zeros(3))
    (tmp_path / "reads_data.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda: importlib.import_module("reads_data")
    sys.modules.pop("reads_data", None)


def names(data: UserDataFiles) -> set[str]:
    return {Path(path).name for path in data.note()}


def test_what_users_code_opens_to_read_counts(module, tmp_path):
    (tmp_path / "opened").read_text()  # a test is users' code too, but the hook is not set yet
    data = UserDataFiles()
    made = module()
    assert names(data) == COUNTED
    made.later("later")
    assert data.has_grown()
    assert names(data) == {*COUNTED, "later"}
    assert not data.has_grown()
    made.later("later")
    before = data.note()
    os.replace(tmp_path / "edited", tmp_path / "later")  # what this process writes does not count
    made.later("later")
    after = data.note()
    path = str(tmp_path / "later")
    assert [key for key in after if after[key] != before[key]] == [path]
    assert still_has(path, after[path])
    assert not still_has(path, before[path])
    data.forget()
    assert names(data) == set()


def test_limits(module, tmp_path, monkeypatch):
    """Very many files, and very large ones, cost little."""
    monkeypatch.setattr(user_data_files, "MOST", len(COUNTED) + 1)
    monkeypatch.setattr(user_data_files, "WHOLE_BYTES", 0)
    data = UserDataFiles()
    made = module()
    data.note()
    made.later("later")
    made.later("more")
    found = data.note()
    assert {Path(path).name for path in found} == {*COUNTED, "later"}
    assert all(digest.startswith("stat:") for digest in found.values())
    os.utime(tmp_path / "later", (7, 7))
    made.later("later")
    assert data.note() != found
