"""Code of users, by name: `module:attr` is how it travels; the code itself never does.

A process resolves two sorts of names. What it has itself named with `reference` (its own pipeline
uses that class or function, so it is loaded already), and what lies in modules that it was told to
allow: the operator's `[daemon] op_modules` in a builder, everything in a worker, which is given
nothing that a builder has not let pass. No other module is ever imported, whatever a graph says.

Any thread may call. Nothing is evaluated, unpickled or searched for.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any, Final

from stoker.protocol.errors import BuildError

EVERY_MODULE: Final = "*"
_lock = threading.Lock()
_allowed: set[str] = set()
_known: dict[str, Any] = {}


def allow_modules(*modules: str) -> None:
    """Let this process import code from these modules and their submodules; `"*"`: from any."""
    with _lock:
        _allowed.update(modules)


def is_allowed(module: str) -> bool:
    """Whether code of a module may be imported for a name that a graph holds."""
    parts = module.split(".")
    names = {".".join(parts[: end + 1]) for end in range(len(parts))}
    return bool(_allowed & {EVERY_MODULE, *names})


def reference(code: Any, what: str) -> str:
    """Return the `module:attr` of a class or function, and remember it for this process.

    Args:
        code: a class or function at the top level of a module (or a class inside such a class).
        what: what it is, for messages: "op Blur".

    Raises:
        BuildError: no other process could import it by name: it is defined in `__main__`, inside a
            function, or is no longer what its module holds under its name.
    """
    module = getattr(code, "__module__", None) or ""
    path = getattr(code, "__qualname__", None) or ""
    if module == "__main__":
        raise BuildError(
            f"{what} is defined in __main__, which a worker cannot import: move it into a module "
            "and import it from there"
        )
    if not module or "<" in path or not path:
        raise BuildError(
            f"{what} is defined inside a function ({module}:{path or 'no name'}), so a worker "
            "cannot import it: move it to the top level of a module"
        )
    name = f"{module}:{path}"
    if _attribute(sys.modules.get(module), path) is not code:
        raise BuildError(
            f"{what}: {name} is something else than what is used here: give it a name of its own "
            "in its module, at the top level"
        )
    with _lock:
        _known[name] = code
    return name


def resolve(name: str, *, trusted: bool = False) -> Any:
    """Return what `module:attr` names.

    Args:
        name: the name.
        trusted: it stands in code that this process runs anyway, so its module may be imported.

    Raises:
        BuildError: the name has another form, its module may not be imported here, fails to
            import, or has no such attribute.
    """
    module, colon, path = name.partition(":")
    parts = [*module.split("."), *path.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise BuildError(f"{name!r}: expected `module:attribute`")
    with _lock:
        if name in _known:
            return _known[name]
    if trusted and module == "__main__":
        raise BuildError(
            f"{name!r}: a worker cannot import __main__: move it into a module and name that"
        )
    if not trusted and not is_allowed(module):
        raise BuildError(
            f"{name!r}: code of module {module!r} may not be imported here; the operator of the "
            f"daemon allows it with `op_modules = [{module!r}]` in [daemon] (--op-module {module})",
            module=module,
        )
    try:
        found = _attribute(importlib.import_module(module), path)
    except BuildError:
        raise
    except Exception as error:  # whatever the user's module raises while it is imported
        raise BuildError(
            f"{name!r}: importing {module!r} failed with {type(error).__name__}: {error}. Is its "
            "folder in [daemon] python_path?"
        ) from error
    if found is None:
        raise BuildError(f"{name!r}: module {module!r} has no {path!r}")
    if trusted:
        with _lock:
            _known[name] = found
    return found


def _attribute(module: Any, path: str) -> Any:
    found = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
