"""Files of users with the names of Python's own modules never run as a part of Stoker."""

import importlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from traps import TRAPS, set_traps

from stoker.client import Loader
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.importing import (
    add_folders,
    hint,
    shadowed,
    warning,
    without_working_folder,
)
from stoker.server.settings.module_lookup import why_missing

STOKER = str(Path(sys.executable).with_name("stoker"))
PIPELINE = """
    from stoker.pipeline import pipeline

    @pipeline
    def labels(sample):
        return {"label": sample.label}
"""
SCRIPT = """
    import sys
    from pathlib import Path
    from stoker.client import Loader
    from mine import labels

    with Loader(sys.argv[1], pipeline=labels, batch_size=4, device="numpy", workers=1) as loader:
        for batch in loader:
            print(batch["label"].tolist())
            break
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    root = tmp_path_factory.mktemp("packed")
    for number in range(8):
        folder = root / "source" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / f"{number}.png")
    pack(root / "source", root / "packed", Options(workers=1))
    return root / "packed"


@pytest.fixture
def project(tmp_path):
    """A folder with a pipeline, and modules that say that they ran and then fail."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "mine.py").write_text(textwrap.dedent(PIPELINE))
    set_traps(root, tmp_path / "ran")
    return root


@pytest.mark.as_a_user
def test_a_daemon_in_such_a_folder_serves_and_says_what_is_shadowed(
    serve, packed, project, tmp_path, monkeypatch
):
    monkeypatch.chdir(project)
    served = serve(
        f"--dataset=shapes={packed}", "--pipeline=labels=mine:labels", "--python-path=.",
        prefix=["env", "PYTHONSAFEPATH=1"],
    )  # fmt: skip
    assert served.ready == {"address": served.address}, served.log.read_text()
    options = {"pipeline": "labels", "batch_size": 4, "device": "numpy"}
    with Loader(served.address, dataset="shapes", **options) as loader:
        assert len(next(iter(loader))["label"]) == 4
    assert served.stop() == 0
    assert not (tmp_path / "ran").exists()
    (line,) = [line for line in served.log.read_text().splitlines() if "are shadowed" in line]
    assert line.startswith(f"modules of {project} are shadowed and not imported by workers: ")
    assert [f"{name}.py (by " in line for name in (*TRAPS, "mine")] == [True] * 6 + [False]


def test_without_python_path_the_working_folder_is_not_searched(serve, packed, project):
    served = serve(
        f"--dataset=shapes={packed}", "--pipeline=labels=mine:labels",
        prefix=["env", "-C", str(project), "PYTHONSAFEPATH=1"],
    )  # fmt: skip
    assert f"it is in the working folder: add --python-path {project}" in str(served.ready)


def run(command, folder):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_a_private_daemon_of_a_script_in_such_a_folder(packed, project, tmp_path):
    """Its working folder has the traps; the script's own has the pipeline and one more trap."""
    script = tmp_path / "scripts"
    script.mkdir()
    (script / "train.py").write_text(textwrap.dedent(SCRIPT))
    (project / "mine.py").rename(script / "mine.py")
    (project / "tomllib.py").rename(script / "tomllib.py")  # of the daemon, not of the client
    out, err = run([sys.executable, script / "train.py", packed], project)
    assert len(json.loads(out)) == 4
    assert "shadowed" not in err, "the script has not imported it"
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_pythonpath_does_not_bring_the_working_folder_back(packed, tmp_path):
    """An empty entry means the working folder; `tomllib` is imported by daemons alone."""
    for folder in ("scripts", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "scripts" / "train.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "scripts" / "mine.py").write_text(textwrap.dedent(PIPELINE))
    (tmp_path / "work" / "tomllib.py").write_text("raise ImportError('a trap')\n")
    command = ["env", "PYTHONPATH=:", sys.executable, tmp_path / "scripts" / "train.py", packed]
    out, _ = run(command, tmp_path / "work")
    assert len(json.loads(out)) == 4


@pytest.mark.parametrize(
    ("given", "left"),
    [(":", ""), ("a:/b::/c:.", "/b:/c"), ("/b", "/b"), ("", ""), (None, None)],
)
def test_entries_of_pythonpath_that_children_get(given, left):
    environment = {"HOME": "/h"} if given is None else {"HOME": "/h", "PYTHONPATH": given}
    found = without_working_folder(environment)
    assert (found.get("PYTHONPATH"), found["HOME"]) == (left, "/h")


@pytest.mark.slow
def test_a_loader_warns_of_a_module_that_workers_will_not_import(packed, tmp_path, monkeypatch):
    (tmp_path / "warned.py").write_text("import colorsys\n" + textwrap.dedent(PIPELINE))
    (tmp_path / "colorsys.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as for a script of the folder
    monkeypatch.setitem(sys.modules, "colorsys", None)  # afterwards it is what it was
    del sys.modules["colorsys"]
    labels = importlib.import_module("warned").labels
    said = f"modules of {tmp_path} are shadowed and not imported by workers: .*colorsys.py .by "
    options = {"pipeline": labels, "batch_size": 4, "device": "numpy", "workers": 1}
    with pytest.warns(UserWarning, match=said), Loader(packed, **options) as loader:
        assert len(next(iter(loader))["label"]) == 4


@pytest.mark.slow
def test_commands_in_such_a_folder(packed, project, tmp_path):
    """`stoker bench`, which starts most, runs in one in tests/server/commands/test_bench.py."""
    out, _ = run([STOKER, "explain", "mine:labels", packed], project)
    assert "label" in out
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def added(project, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    add_folders([str(project)])
    assert sys.path[-1] == str(project)
    return project


def test_an_error_names_the_file_that_is_shadowed(added):
    assert hint("mine") == ""
    assert hint("none.such") == ""
    for name in ("types", "json.decoder"):
        file = f"{added}/{name.partition('.')[0]}.py"
        assert hint(name).startswith(f"; {file} is shadowed by ")
        assert hint(name).endswith(".py: rename it")
    reason = why_missing("json:train", [str(added)])
    assert "/json/__init__.py has no 'train'" in reason
    assert f"; {added}/json.py is shadowed by " in reason


def test_a_folder_that_is_installed_in_place_shadows_nothing(project):
    (project / "sub").mkdir()
    (project / "sub" / "__init__.py").touch()
    (project / "no_code").mkdir()
    assert shadowed(str(project), [str(project)]) == []
    link = project.parent / "link"
    link.symlink_to(project)
    assert warning(str(link), [str(project)]) == ""
    (project / "time.py").touch()
    ((name, file, other),) = shadowed(str(project), ["/nowhere"])
    assert (name, file, other) == ("time", f"{project}/time.py", "Python's own time")
