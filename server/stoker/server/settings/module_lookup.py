"""Find out whether `module:attribute` can exist, by reading the source; nothing is imported.

The daemon must not import modules of users, and should still notice a misspelled name at start. A
name is only rejected for certain: a module that no finder knows, or a source that never binds the
attribute and has nothing that could bind it in another way.
"""

import ast
import builtins
import difflib
import importlib.machinery
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Final

from stoker.protocol.importing import modules_of, shadowed

_DYNAMIC: Final = frozenset(("exec", "eval", "globals", "locals", "setattr", "vars", "__import__"))
_FURTHER: Final = ("__path__", "sys.modules")
"""Names in the source of a package that may have modules in other folders."""
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def why_missing(target: str, folders: Sequence[str]) -> str:
    """Return why `module:attribute` cannot be imported, or "" if it may be.

    Args:
        target: `module:attribute`, or `module`.
        folders: searched after `sys.path`, as the children do. The children do not search the
            folder of the script or, under `python -m`, the working folder.
    """
    module, _, attribute = target.partition(":")
    path = [*(sys.path if sys.flags.safe_path else sys.path[1:]), *folders]
    try:
        spec = _spec(module, path)
    except _UnknownError:
        return ""
    if spec is None:
        return _no_module(module, folders)
    source = _source(spec)
    try:
        names = bound_names(source) if source is not None and attribute else None
    except SyntaxError as error:
        why = f"{spec.origin}:{error.lineno}: it is not Python: {error.msg}"
        return why + _shadowed(module, folders, path)
    if names is None or attribute in names:
        return ""
    near = _nearest(attribute, sorted(names))
    return f"{spec.origin} has no {attribute!r}{near}{_shadowed(module, folders, path)}"


def _shadowed(module: str, folders: Sequence[str], path: list[str]) -> str:
    """Return a hint if a folder has a module of that name, which is not the one imported."""
    for folder in folders:
        for one in shadowed(folder, path, [module.partition(".")[0]]):
            return f"; {one.file} is shadowed by {one.other}: rename it"
    return ""


def bound_names(source: str) -> set[str] | None:
    """Return the names that a module's code may bind; None if it could bind any name.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return None
        if isinstance(node, ast.Name) and node.id in _DYNAMIC:
            return None
        if isinstance(node, ast.Attribute) and node.attr in ("modules", "__dict__"):
            return None
    found = set().union(*map(_bound_by, _outer(tree)))
    found |= {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    return None if "__getattr__" in found else found


def _outer(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module that are not inside a function or class."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _outer(child)


def _bound_by(node: ast.AST) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        case ast.Name(ctx=ast.Store()):
            return {node.id}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return {name}
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


class _UnknownError(Exception):
    """It cannot be known whether a module exists."""


def _spec(module: str, path: list[str]) -> ModuleSpec | None:
    """Return the spec of a module; None if it does not exist."""
    parts = module.split(".")
    if parts[0] in sys.builtin_module_names:
        raise _UnknownError
    spec = importlib.machinery.PathFinder.find_spec(parts[0], path) or _of_hooks(parts[0])
    for end in range(2, len(parts) + 1):
        if spec is None:
            return None
        name, parent = ".".join(parts[:end]), spec
        within = list(parent.submodule_search_locations or ())
        spec = importlib.machinery.PathFinder.find_spec(name, within)
        if spec is None and any(word in (_source(parent) or "") for word in _FURTHER):
            raise _UnknownError
    return spec


def _of_hooks(name: str) -> ModuleSpec | None:
    """Return the spec from other finders, such as those of packages installed in place."""
    for finder in sys.meta_path:
        find: Any = getattr(finder, "find_spec", None)
        if finder is not importlib.machinery.PathFinder and find is not None:
            found: ModuleSpec | None = find(name, None)
            if found is not None:
                return found
    return None


def _source(spec: ModuleSpec) -> str | None:
    """Return a module's source; None if its loader has no source."""
    get_source: Any = getattr(spec.loader, "get_source", None)
    try:
        return None if get_source is None else get_source(spec.name)
    except (ImportError, OSError):
        return None


def _no_module(module: str, folders: Sequence[str]) -> str:
    top = module.partition(".")[0]
    near = ""
    if "." not in module:
        stems = {path.stem for folder in ("", *folders) for path in Path(folder).glob("*.py")}
        near = _nearest(top, sorted(stems))
    looked = ", ".join(folders) or "none"
    is_here = top in modules_of(os.getcwd())
    here = f"; it is in the working folder: add --python-path {os.getcwd()}" if is_here else ""
    return (
        f"there is no module {module!r}{near}; expected one that is installed, or in a folder of"
        f" daemon.python_path ({looked}){here}"
    )


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, [k for k in known if not hasattr(builtins, k)], 1)
    return f"; did you mean {close[0]!r}?" if close else ""
