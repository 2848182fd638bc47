"""User code by name: it travels as `module:attr`; the code itself is never sent.

A process resolves two sorts of names. First, names that it made itself with `reference` (its own
pipeline uses that class or function, so it is already loaded). Second, names in modules that it was
allowed to import: the operator's `[daemon] op_modules` in a builder; everything in a worker, which
only receives names that a builder has accepted. No other module is ever imported for a graph.

Any thread may call. Nothing is evaluated, unpickled or searched for.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any, Final

from stoker.protocol.errors import BuildError
from stoker.protocol.importing import hint

EVERY_MODULE: Final = "*"
_lock = threading.Lock()
_allowed: set[str] = set()
_known: dict[str, Any] = {}


def allow_modules(*modules: str) -> None:
    """Let this process import code from these modules and their submodules; `"*"` allows all."""
    with _lock:
        _allowed.update(modules)


def is_allowed(module: str) -> bool:
    """Return whether a module may be imported for a name in a graph."""
    parts = module.split(".")
    names = {".".join(parts[: end + 1]) for end in range(len(parts))}
    return bool(_allowed & {EVERY_MODULE, *names})


def reference(code: Any, what: str) -> str:
    """Return the `module:attr` of a class or function, and remember it for this process.

    Args:
        code: a class or function at the top level of a module (or a class inside such a class).
        what: the name of the thing in messages: "op Blur".

    Raises:
        BuildError: no other process could import it by name: it is defined in `__main__` or inside
            a function, or its module now holds another object under its name.
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
            f"{what} is defined inside a function ({module}:{path or 'without a name'}), so a "
            "worker "
            "cannot import it: move it to the top level of a module"
        )
    name = f"{module}:{path}"
    if _attribute(sys.modules.get(module), path) is not code:
        raise BuildError(
            f"{what}: {name} is not the object that is used here: give it a name of its own at the "
            "top level of its module"
        )
    with _lock:
        _known[name] = code
    return name


def resolve(name: str, *, trusted: bool = False) -> Any:
    """Return the object that `module:attr` names.

    Args:
        name: the name.
        trusted: it is named by code that this process runs anyway, so its module may be imported.

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
            f"{name!r}: importing code from module {module!r} is not allowed here; the operator of "
            "the daemon allows it with "
            f"`op_modules = [{module!r}]` in [daemon] (--op-module {module})",
            module=module,
        )
    try:
        found = _attribute(importlib.import_module(module), path)
    except BuildError:
        raise
    except Exception as error:  # any error that the user's module raises during the import
        raise BuildError(
            f"{name!r}: importing {module!r} failed with {type(error).__name__}: {error}. Is its "
            f"folder in [daemon] python_path?{hint(module)}"
        ) from error
    if found is None:
        raise BuildError(f"{name!r}: module {module!r} has no {path!r}{hint(module)}")
    if trusted:
        with _lock:
            _known[name] = found
    return found


def forget_names() -> None:
    """Forget the objects of names that were resolved, so that edited modules are imported again."""
    with _lock:
        _known.clear()


def _attribute(module: Any, path: str) -> Any:
    found = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
