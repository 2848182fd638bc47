"""Guards of the layout: one namespace, typed packages, imports that point one way."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE_ROOTS = ("protocol", "server", "client")


def packages(root: Path) -> list[Path]:
    return sorted(
        path.parent for top in SOURCE_ROOTS for path in (root / top / "stoker").glob("*/*.py")
        if path.name == "__init__.py"
    )  # fmt: skip


def test_the_namespace_has_no_init(root: Path) -> None:
    """An `__init__.py` there would hide the other source roots from an editable install."""
    found = [top for top in SOURCE_ROOTS for _ in (root / top / "stoker").glob("__init__.py*")]
    assert not found
    assert not [top for top in SOURCE_ROOTS if (root / top / "__init__.py").exists()]


def test_the_packages_are_those_of_the_design(root: Path) -> None:
    names = {"/".join(p.relative_to(root).parts) for p in packages(root)}
    server = {"jit", "rng", "ops", "pipeline", "dataset", "order", "server"}
    wanted = {f"server/stoker/{name}" for name in server}
    assert names >= wanted | {"client/stoker/client", "protocol/stoker/protocol"}
    assert names - wanted - {"client/stoker/client", "protocol/stoker/protocol"} <= {
        "server/stoker/compat"
    }


def test_each_package_is_typed(root: Path) -> None:
    assert [p.name for p in packages(root) if not (p / "py.typed").is_file()] == []


def test_each_folder_of_modules_is_a_package(root: Path) -> None:
    """A folder without `__init__.py` would be a second namespace, which tools treat differently."""
    folders = {
        path.parent for top in SOURCE_ROOTS for path in (root / top / "stoker").rglob("*.py")
    }
    missing = [f for f in folders if not (f / "__init__.py").exists()]
    assert [str(f.relative_to(root)) for f in missing] == []


def test_the_layers_name_every_package(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert set(settings["root_packages"]) == {f"stoker.{p.name}" for p in packages(root)}


@pytest.mark.slow
def test_imports_point_one_way(root: Path) -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_packages_are_imported_by_their_one_name() -> None:
    """With the tests' settings the source roots are no packages of their own."""
    for name in ("stoker.server", "stoker.client", "stoker.protocol"):
        __import__(name)
    assert not {"server", "client", "protocol"} & set(sys.modules)
