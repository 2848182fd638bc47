"""What `make dist` refuses, and what PyPI is told. `make dist` itself builds and tries it all."""

import re
import tomllib
import zipfile
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

import pytest
from trove_classifiers import classifiers


@pytest.fixture
def tool(root, monkeypatch):
    """tool(name) -> a module of tools/release."""
    monkeypatch.syspath_prepend(str(root / "tools/release"))

    def get(name: str) -> ModuleType:
        return import_module(name)

    return get


@pytest.fixture
def project(root) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("BSD License", True),
        ("BSD-3-Clause AND MIT AND Zlib", True),
        ("Apache-2.0 OR BSD-3-Clause", True),
        ("GPL-3.0-only OR MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("(MIT OR Apache-2.0) AND ISC", True),
        ("GPL-3.0-only", False),
        ("MIT AND LGPL-2.1-only", False),
        ("(MIT OR GPL-3.0-only) AND ISC", False),
        ("", False),
    ],
)
def test_licenses_that_ask_for_a_notice_are_allowed(tool, expression, allowed):
    assert tool("licenses").is_allowed(expression) == allowed


def component(name: str, *licenses: dict) -> dict:
    return {"name": name, "version": "1.0", "licenses": [*licenses]}


def test_the_table_of_licenses(tool):
    bill = [
        component("lz4", {"license": {"name": "License :: OSI Approved :: BSD License"}}),
        component("cryptography", {"expression": "Apache-2.0 OR BSD-3-Clause"}),
        component("Pillow", {"license": {"id": "MIT-CMU"}}),
    ]
    assert tool("licenses").table(bill) == (
        "| package | version | license |\n| --- | --- | --- |\n"
        "| cryptography | 1.0 | Apache-2.0 OR BSD-3-Clause |\n"
        "| lz4 | 1.0 | BSD License |\n| Pillow | 1.0 | MIT-CMU |\n"
    )


def test_another_license_and_none_are_refused_by_name(tool):
    bill = [component("free", {"license": {"id": "GPL-2.0-only"}}), component("bare")]
    with pytest.raises(tool("licenses").LicenseError) as told:
        tool("licenses").table(bill)
    assert str(told.value).endswith("got bare 1.0: none; free 1.0: GPL-2.0-only")


RIGHT = {"stoker/__main__.py", "stoker/client/py.typed", "stoker/client/loader.py"}


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        (RIGHT - {"stoker/__main__.py"}, r"it lacks \['stoker/__main__.py'\], and has \[\]"),
        (RIGHT | {"tests/conftest.py"}, r"it lacks \[\], and has \['tests/conftest.py'\]"),
    ],
)
def test_a_wheel_holds_the_packages_alone(tool, tmp_path, inside, message):
    archives = tool("archives")
    archives.check_wheel(wheel(tmp_path / "right.whl", RIGHT), RIGHT)
    with pytest.raises(archives.ArchiveError, match=message):
        archives.check_wheel(wheel(tmp_path / "wrong.whl", inside), RIGHT)


def test_every_package_of_a_wheel_is_typed(tool, tmp_path):
    archives, files = tool("archives"), RIGHT | {"stoker/other/loader.py", "stoker/client/page.css"}
    with pytest.raises(archives.ArchiveError, match=r"\['stoker/other'\] have no py.typed"):
        archives.check_wheel(wheel(tmp_path / "wrong.whl", files), files)


def wheel(path: Path, names: set[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted(names | {"stoker-0.1.0.dist-info/METADATA"}):
            archive.writestr(name, "")
    return path


def test_what_pypi_is_told(root, project):
    told = project["project"]
    assert set(told["classifiers"]) <= set(classifiers)
    assert told["version"] == metadata.version("stoker")
    assert re.search(
        rf"^## (Unreleased|{told['version']})", (root / "CHANGELOG.md").read_text(), re.M
    )
    assert (root / told["readme"]).is_file()


def test_every_package_that_the_project_names_is_pinned(root, project):
    lines = (root / "constraints.txt").read_text().splitlines()
    pinned = {plain(line.split("==")[0]) for line in lines if not line.startswith("#")}
    told = project["project"]
    lists = [*told["optional-dependencies"].values(), *project["dependency-groups"].values()]
    named = {plain(re.match(r"[\w.-]+", one)[0]) for many in lists for one in many}
    named |= {plain(re.match(r"[\w.-]+", one)[0]) for one in told["dependencies"]}
    assert named - pinned == set()
    assert len(pinned) == len([line for line in lines if not line.startswith("#")])


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
