"""The provenance of user code: source, values and versions, as part of a pipeline's identity.

The search starts at the module of a name and follows the origins of its globals and the imports in
its source. A module that no installed distribution owns is the user's own: its source file counts,
and is followed in turn. A module of a distribution counts as that distribution's name and version.
The standard library and Stoker itself do not count: the interpreter is part of the installation,
and ops have versions. The values that the code reads count too (`stoker.ops.custom.reached`).

An import whose module's name is computed is not found.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stoker.ops.custom.imports import file_of, imported_by
from stoker.ops.custom.reached import reached_values
from stoker.protocol.errors import BuildError


class Provenance(NamedTuple):
    """The origin of code.

    Attributes:
        source: BLAKE2b-128 over the source files and the values that it reads, 32 hex digits.
        distributions: `name version` of every distribution it uses directly, sorted.
    """

    source: str
    distributions: tuple[str, ...]


def provenance(module: str, thing: Any) -> Provenance:
    """Return where a function or object of a module comes from.

    Args:
        module: name of a module that is imported.
        thing: an object in it; its class may come from elsewhere.

    Raises:
        BuildError: the module has no source file.
    """
    pending = [module, *_modules_of(thing)]
    sources: dict[str, str] = {}
    distributions: set[str] = set()
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen or _is_part_of_python(name):
            continue
        seen.add(name)
        owner = _distribution(name.partition(".")[0])
        if owner:
            distributions.add(owner)
        if not owner or name == module:
            path = file_of(name)
            if path is None and _is_package(name):
                continue
            sources[name] = _source_digest(name, path)
            space = list(vars(sys.modules[name]).values()) if name in sys.modules else []
            pending += [origin for value in space for origin in _modules_of(value)]
            pending += [found for found in imported_by(name, path) if _is_own(found)]
    total = hashlib.blake2b(digest_size=16)
    for name, digest in sorted(sources.items()):
        total.update(f"{name}={digest}\n".encode())
    for place, digest in sorted(values_of(module, thing).items()):
        total.update(f"{place}={digest}\n".encode())
    return Provenance(total.hexdigest(), tuple(sorted(distributions)))


def values_of(module: str, thing: Any) -> dict[str, str]:
    """Return the values that a function or object of a module reads: place -> digest."""
    return reached_values(
        module, thing, lambda name: name == module or (name in sys.modules and _is_own(name))
    )


def _modules_of(value: Any) -> list[str]:
    """Return the modules that a global comes from: a module, or where it or its class was made."""
    if isinstance(value, ModuleType):
        return [value.__name__]
    found = [getattr(value, "__module__", None), type(value).__module__]
    return [name for name in found if isinstance(name, str) and name in sys.modules]


def _is_own(name: str) -> bool:
    """Return whether there is such a module, and it is a user's."""
    top = name.partition(".")[0]
    return not (_is_part_of_python(name) or _distribution(top)) and file_of(name) is not None


def _is_package(name: str) -> bool:
    """Return whether a module is a folder without code of its own."""
    return hasattr(sys.modules.get(name), "__path__")


def _is_part_of_python(name: str) -> bool:
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top in sys.builtin_module_names or top == "stoker"


def _source_digest(name: str, path: str | None) -> str:
    try:
        return hashlib.blake2b(Path(path or "").read_bytes(), digest_size=16).hexdigest()
    except OSError:
        raise BuildError(
            f"module {name!r} has no source file, so a change of its code could not be detected: "
            "put the code into a file"
        ) from None


@functools.cache
def _distribution(top: str) -> str:
    """Return `name version` of the distribution that a top-level package belongs to, or ""."""
    names = _owners().get(top, ())
    if not names:
        return ""
    return " ".join((names[0].lower(), importlib.metadata.version(names[0])))


@functools.cache
def _owners() -> dict[str, tuple[str, ...]]:
    found = importlib.metadata.packages_distributions()
    return {top: tuple(sorted(set(names))) for top, names in found.items()}
