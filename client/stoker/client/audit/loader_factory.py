"""The user's function that makes a loader: finding it, and what it can be asked.

Runs in the processes that import users' code: of an audit, and of a comparison.
"""

import importlib
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from stoker.protocol.errors import BuildError, StokerError, UsageError
from stoker.protocol.importing import hint

ASKED: Final = ("workers", "seed", "epoch", "rank", "world_size", "only")
"""The arguments that a factory may take, by name and in any order."""
_OF_OTHERS: Final = (
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    "<",
)
"""Prefixes of the names of files that are not the user's."""


class LoaderFactory:
    """A function that makes a loader.

    Attributes:
        name: `module:attribute`.
        takes: those of `ASKED` that it takes.
        others: its other parameters, which have their defaults.
    """

    def __init__(self, name: str) -> None:
        """Import it.

        Raises:
            BuildError: it does not exist, or its module cannot be imported.
            UsageError: it needs an argument that an audit does not give.
        """
        self.name = name
        self._make = _imported(name)
        self.takes = _taken(name, self._make)
        parameters = inspect.signature(self._make).parameters.values()
        named = (
            one.name for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        )
        self.others = [one for one in named if one not in ASKED]

    def make(self, arguments: Mapping[str, int | None]) -> Any:
        """Return a loader, made with those of the arguments that the function takes.

        Raises:
            UsageError: it returned nothing to iterate over.
        """
        loader = self._make(**{key: arguments[key] for key in self.takes if key in arguments})
        if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
            raise UsageError(
                f"{self.name} returned {type(loader).__name__}: expected an iterable of batches,"
                " such as a DataLoader"
            )
        return loader


def _imported(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise BuildError(f"{name!r}: expected module:function, such as my_data:make_loader")
    try:
        found = getattr(importlib.import_module(module_name), attribute, None)
    except StokerError:
        raise
    except Exception as error:
        raise BuildError(
            f"{name!r}: importing {module_name!r} failed with {in_words(error)}{hint(module_name)};"
            " --python-path names its folder"
        ) from error
    if not callable(found):
        raise BuildError(f"{name!r}: {module_name!r} has no function {attribute!r}")
    return found  # type: ignore[no-any-return]


def _taken(name: str, make: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(make).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return [*ASKED]
    for one in parameters:
        needed = one.default is one.empty and one.kind is not one.VAR_POSITIONAL
        if needed and (one.name not in ASKED or one.kind is one.POSITIONAL_ONLY):
            raise UsageError(
                f"{name}: its argument {one.name!r} has no default: expected some of"
                f" {', '.join(ASKED)}, by name"
            )
    return [key for key in ASKED if any(one.name == key for one in parameters)]


def in_words(error: BaseException) -> str:
    """Return an error in one line, with the innermost place of the user's code."""
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    place = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {text[:1000]}{place}"


def is_users(file: str) -> bool:
    """Return whether a file is neither Python's, nor of an installed package, nor of Stoker."""
    return not file.startswith(_OF_OTHERS)
