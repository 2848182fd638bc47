"""Guards of the layout: one namespace, typed packages, imports that point one way."""

import ast
import graphlib
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Set
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
        "server/stoker/compat",
        "client/stoker/ray",
    }


def test_each_package_is_typed(root: Path) -> None:
    assert [p.name for p in packages(root) if not (p / "py.typed").is_file()] == []


def test_each_folder_of_modules_is_a_package(root: Path) -> None:
    """A folder without `__init__.py` would be a second namespace, which tools treat differently."""
    folders = {
        path.parent for top in SOURCE_ROOTS for path in (root / top / "stoker").rglob("*.py")
    }
    missing = [str(f.relative_to(root)) for f in folders if not (f / "__init__.py").exists()]
    assert missing == ["server/stoker"], "the namespace itself, which has a __main__.py there"
    assert [path.name for path in (root / "server/stoker").glob("*.py")] == ["__main__.py"]


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
    """With the tests' settings the source roots cannot be imported as packages."""
    for name in ("stoker.server", "stoker.client", "stoker.protocol"):
        __import__(name)
    assert not {"server", "client", "protocol"} & set(sys.modules)


MOST_MODULES = 60
MOST_LINES = 700
"""Loose guards against accidents; files and folders are split by concern, not by these."""
OF_FFCV = "/compat/ffcv/"
NAMES_OF_FFCV = {"Field", "Loader", "RandomResizedCrop", "Reader", "State"}
"""Two classes have each of these names: ours, and the one that scripts for FFCV import."""


def modules(root: Path) -> list[Path]:
    return [path for top in SOURCE_ROOTS for path in (root / top / "stoker").rglob("*.py")]


def short(root: Path, path: Path) -> str:
    """A path below the namespace: `ops/color/hue.py`."""
    return path.relative_to(root).as_posix().split("/stoker", 1)[1].removeprefix("/")


def test_no_folder_or_file_has_grown_out_of_hand(root: Path) -> None:
    folders = Counter(path.parent for path in modules(root) if path.name != "__init__.py")
    crowded = {short(root, folder) for folder, count in folders.items() if count > MOST_MODULES}
    long = {short(root, p) for p in modules(root) if len(p.read_text().splitlines()) > MOST_LINES}
    assert (crowded, long) == (set(), set())


def test_imports_make_no_circle(sources: Mapping[str, ast.Module]) -> None:
    """Those under TYPE_CHECKING and inside functions count too."""
    trees = {module_name(path): tree for path, tree in sources.items()}
    graph = {name: imported(tree, trees.keys()) - {name} for name, tree in trees.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def module_name(path: str) -> str:
    """`stoker.ops.color` for `server/stoker/ops/color/__init__.py`."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts[1:])


def imported(tree: ast.Module, known: Set[str]) -> set[str]:
    """Those of the known modules that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= known else {node.module, *names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def test_each_room_says_what_it_is_for(sources: Mapping[str, ast.Module]) -> None:
    """In three to eight lines: what is in it, who may import it, what it must not know."""
    for path, tree in sources.items():
        if path.endswith("/__init__.py"):
            said = ast.get_docstring(tree)
            assert said, path
            assert 3 <= said.count("\n") + 1 <= 8, path


RECORDS_OF_A_LOADER = ("Group", "Shuffle")
"""What a caller asks for, and what the server makes of it."""
TWICE = (*RECORDS_OF_A_LOADER, "Normalize")
"""Normalize is an op, and the module of torch that computes the same after the transfer."""


def test_each_class_name_has_one_meaning(sources: Mapping[str, ast.Module]) -> None:
    """So each word of the glossary, too, names at most one class."""
    found: dict[str, list[str]] = {}
    for path, tree in sources.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path)
    several = {name: sorted(paths) for name, paths in found.items() if len(paths) > 1}
    for name in TWICE:
        assert len(several.pop(name)) == 2, name
    of_ffcv = {name: sum(OF_FFCV in path for path in paths) for name, paths in several.items()}
    assert several.keys() <= NAMES_OF_FFCV, several
    assert {name: (len(several[name]), n) for name, n in of_ffcv.items()} == dict.fromkeys(
        NAMES_OF_FFCV, (2, 1)
    )
