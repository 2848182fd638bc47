"""Names that are served must exist: datasets, pipelines, modules; checked without imports."""

import json
import sys
import tarfile
from pathlib import Path

import pytest
from commands import call

from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import ConfigError
from stoker.server.settings.config_loading import load
from stoker.server.settings.module_lookup import bound_names, why_missing
from stoker.server.settings.served_names import check_served

SOURCE = """
raise SystemExit("nothing may import this")
from stoker.pipeline import pipeline
import package.sub as alias, os.path
@pipeline
def train(sample): ...
if True:
    for evaluate in (): other, (more, *rest) = 1, 2
try: pass
except ValueError as wrong: pass
with open("x") as file, (walrus := 1): pass
def setter():
    global late
    late = 1
    local = 2
class Photos:
    inside = 1
match 1:
    case [first, *others] | {"a": first, **others}: pass
[comprehended for comprehended in ()]
"""
BOUND = {
    "pipeline", "alias", "os", "train", "evaluate", "other", "more", "rest", "wrong", "file",
    "walrus", "setter", "late", "Photos", "first", "others",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a module, a package and a packed dataset; the working folder is another."""
    (tmp_path / "pipelines.py").write_text(SOURCE)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").touch()
    (tmp_path / "project" / "steps.py").write_text("def train(sample): ...\n")
    (tmp_path / "spaced").mkdir()
    (tmp_path / "spaced" / "steps.py").write_text("train = 1\n")
    (tmp_path / "broken.py").write_text("def train(:\n")
    (tmp_path / "packed").mkdir()
    manifest = {"version": 1, "files": []}
    manifest["checksum"] = canonical_digest(manifest)
    (tmp_path / "packed" / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def test_all_that_a_module_binds_is_found():
    found = bound_names(SOURCE)
    assert found is not None
    assert found >= BOUND
    assert not found & {"local", "inside", "path", "sub"}


@pytest.mark.parametrize(
    "line",
    [
        "from somewhere import *",
        "globals()['train'] = 1",
        "exec('train = 1')",
        "import sys; setattr(sys.modules[__name__], 'train', 1)",
        "def __getattr__(name): ...",
    ],
)
def test_a_module_that_could_bind_any_name_is_not_judged(line):
    assert bound_names(line) is None


@pytest.mark.parametrize(
    "target",
    [
        "pipelines:train", "pipelines:Photos", "project.steps:train", "spaced.steps:train",
        "project", "json:dumps", "os.path:join", "sys:path", "numpy:zeros", "math:exp",
        "stoker.ops:resize", "_frozen_importlib_external:PathFinder",
    ],
)  # fmt: skip
def test_what_can_be_imported_is_not_rejected(folder, target):
    before = set(sys.modules)
    assert why_missing(target, [str(folder)]) == ""
    assert "pipelines" not in set(sys.modules) - before


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("pipelines:trian", "{}/pipelines.py has no 'trian'; did you mean 'train'?"),
        ("pipelines:nothing_like_it", "{}/pipelines.py has no 'nothing_like_it'"),
        ("pipelines:local", "{}/pipelines.py has no 'local'"),
        ("project:train", "{}/project/__init__.py has no 'train'"),
        ("project.stepz:train", "there is no module 'project.stepz'; expected one that is"),
        ("pipelines.inner:train", "there is no module 'pipelines.inner'; expected one"),
        ("broken:train", "{}/broken.py:1: it is not Python: "),
        (
            "pipelnes:train",
            "there is no module 'pipelnes'; did you mean 'pipelines'?; expected one that is "
            "installed, or in a folder of daemon.python_path ({})",
        ),
    ],
)
def test_what_cannot_be_imported_is_rejected_with_the_reason(folder, target, reason):
    assert why_missing(target, [str(folder)]).startswith(reason.replace("{}", str(folder)))


def test_a_package_that_looks_elsewhere_is_not_judged(folder):
    extended = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
    (folder / "project" / "__init__.py").write_text(extended)
    assert why_missing("project.elsewhere:train", [str(folder)]) == ""


def write(folder: Path, text: str) -> Path:
    (folder / "stoker.toml").write_text(text.replace("{}", str(folder)))
    return folder / "stoker.toml"


GOOD = "[daemon]\npython_path = ['{}']\n[datasets]\nphotos = '{}/packed'\n"


def test_what_exists_is_accepted(folder):
    with tarfile.open(folder / "elsewhere" / "a.tar", "w"):
        pass
    (folder / "saved").mkdir()
    (folder / "saved" / "state.json").touch()
    (folder / "parts" / "train").mkdir(parents=True)
    (folder / "parts" / "train" / "0.arrow").touch()
    more = (
        "tars = '{}/elsewhere'\ntar = '{}/elsewhere/a.tar'\npattern = '{}/*/a-{0..9}.tar'\n"
        "saved = '{}/saved'\nparts = '{}/parts'\nlive = 'pipelines:Photos'\n"
        "[pipelines]\ntrain = 'pipelines:train'\n"
    )
    text = GOOD.replace("[datasets]", "op_modules = ['*', 'project']\n[datasets]") + more
    check_served(load(write(folder, text), environment={}))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("[pipelines]\nt = 'pipelines:trian'", "pipeline 't': {}/pipelines.py has no 'trian'; did"),
        ("[pipelines]\nt = 'pipelnes:train'", "pipeline 't': there is no module 'pipelnes'; did"),
        ("b = '{}/nowhere'", "dataset 'b': there is no {}/nowhere; name the folder that"),
        (
            "b = '$DATA/d'",
            "dataset 'b': there is no {}/$DATA/d; name the folder that `stoker pack` wrote, or a"
            " source that is read in place; variables are not expanded here",
        ),
        (
            "b = '{}/project'",
            "dataset 'b': {}/project has no manifest.json: it is not a dataset; make one with"
            " `stoker pack {}/project DEST`",
        ),
        ("b = '{}/broken.py'", "dataset 'b': {}/broken.py is a file that cannot be read in place"),
        ("b = 'pipelines:Fotos'", "dataset 'b': {}/pipelines.py has no 'Fotos'; did you mean"),
    ],
)
def test_what_does_not_exist_is_rejected_by_name(folder, more, reason):
    file = write(folder, GOOD + more)
    for command in ("config", "serve"):
        code, _, error = call(command, "--config", file)
        assert code == 78
        place = f"{file}:{len((GOOD + more).splitlines())}"
        assert error.startswith(f"stoker: {place}: {reason}".replace("{}", str(folder)))


@pytest.mark.parametrize(
    ("text", "flags", "reason"),
    [
        (
            GOOD,
            {"daemon.python_path": ["/nowhere/lib"]},
            "flag --python-path: daemon.python_path: there is no folder",
        ),
        (
            GOOD,
            {"daemon.op_modules": ["my_ops"]},
            "flag --op-module: daemon.op_modules: there is no module 'my_",
        ),
        (
            "[pipelines]\nt = 'pipelines:train'",
            {},
            "nothing to serve: the configuration names no dataset",
        ),
    ],
)
def test_folders_and_modules_of_the_daemon_are_checked_too(folder, text, flags, reason):
    with pytest.raises(ConfigError, match=reason):
        check_served(load(write(folder, text), flags, environment={}))
