"""Folders that users' modules are imported from: always after Python's own and installed modules.

So a file named `socket.py` in such a folder never replaces the module of that name that Stoker
itself needs. Such a file is shadowed: it is not imported. `shadowed` finds these files, to warn of
them, and `hint` explains the errors that follow. Any process may use this; it imports nothing.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from typing import NamedTuple

_added: list[str] = []


def without_working_folder(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for a process that must not import from its working folder.

    Python takes empty and relative entries of PYTHONPATH for parts of the working folder, also
    under `-P`, and searches them before its own modules.
    """
    found = dict(environment)
    if "PYTHONPATH" in found:
        entries = found["PYTHONPATH"].split(os.pathsep)
        found["PYTHONPATH"] = os.pathsep.join(filter(os.path.isabs, entries))
    return found


def working_folder() -> str | None:
    """Return the working folder of this process; None if it was removed or cannot be seen."""
    try:
        return os.getcwd()
    except OSError:
        return None


class Shadowed(NamedTuple):
    """A user's module, and what is imported in its place."""

    name: str
    file: str
    other: str


def add_folders(folders: Iterable[str]) -> None:
    """Append folders to `sys.path`, except those that are there."""
    for folder in map(os.path.abspath, folders):
        if folder not in sys.path:
            sys.path.append(folder)
        if folder not in _added:
            _added.append(folder)


def shadowed(folder: str, path: Sequence[str], only: Iterable[str] | None = None) -> list[Shadowed]:
    """Return the modules of a folder that another module of that name comes before.

    Args:
        folder: the folder.
        path: the folders that are searched before it.
        only: names of the modules to look at; None for all.
    """
    wanted = sorted(modules_of(folder)) if only is None else only
    places = [(name, _file(folder, name)) for name in wanted]
    found = []
    for name, file in places:
        other = None if file is None else _found_in(path, name)
        if file is not None and other is not None and not _is_same(file, other):
            found.append(Shadowed(name, file, other))
    return found


def warning(folder: str, path: Sequence[str], only: Iterable[str] | None = None) -> str:
    """Return one line that names the modules of a folder which are shadowed; "" if none is."""
    found = shadowed(folder, path, only)
    if not found:
        return ""
    names = ", ".join(f"{os.path.basename(one.file)} (by {one.other})" for one in found)
    return (
        f"modules of {folder} are shadowed and not imported by workers: {names}; rename them,"
        " because Python's own and installed modules come first"
    )


def hint(module: str) -> str:
    """Return why a module is not the one in an added folder, to append to an error; "" if it is."""
    name = module.partition(".")[0]
    for number, folder in enumerate(sys.path):
        for one in shadowed(folder, sys.path[:number], [name]) if folder in _added else ():
            return f"; {one.file} is shadowed by {one.other}: rename it"
    return ""


def modules_of(folder: str) -> set[str]:
    """Return the names of the modules and packages in a folder; none if it cannot be read."""
    try:
        names = os.listdir(folder)
    except OSError:
        return set()
    stems = {name.removesuffix(".py") for name in names}
    return {stem for stem in stems if stem.isidentifier() and _file(folder, stem) is not None}


def _file(folder: str, name: str) -> str | None:
    """Return the file of a module, or the folder of a package; None if it does not exist."""
    if os.path.isfile(os.path.join(folder, name, "__init__.py")):
        return os.path.join(folder, name)
    file = os.path.join(folder, f"{name}.py")
    return file if os.path.isfile(file) else None


def _found_in(path: Sequence[str], name: str) -> str | None:
    """Return where a module is found; None if it does not exist or is a folder without code."""
    if name in sys.builtin_module_names:
        return f"Python's own {name}"
    spec = PathFinder.find_spec(name, list(path))
    if spec is None or spec.origin is None:
        return None
    return spec.origin


def _is_same(file: str, other: str) -> bool:
    inner = os.path.join(file, "__init__.py") if os.path.isdir(file) else file
    return os.path.realpath(inner) == os.path.realpath(other)
