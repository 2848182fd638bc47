"""Machine code that builds needed lately: the template loads it once, before it forks workers.

A worker spends most of its start on loading compiled kernels, and sixteen workers load the same
ones. The next pipeline is mostly the last one again. So a builder writes the names of Stoker's
kernels that its engines call into a file of the kernel cache, and the template loads those that the
cache has; its children inherit them. Nothing is compiled for this. A damaged file or cache only
costs time. Kernels of users are not among them, because the template imports only Stoker's code;
but if there were any, it fills the tables of numba that their code needs.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from stoker.jit import cache_root, compiled, kernels_done
from stoker.jit.cacheroot import open_root
from stoker.jit.compiler_tables import are_for_users, fill_for_users
from stoker.jit.diskcache import load_stored
from stoker.jit.kernels import is_ours, mark_of, referred
from stoker.ops.contract.templates import adapted, parts_of
from stoker.pipeline.compiled.machine import addressed
from stoker.protocol.errors import ResourceError

FILE: Final = "recent.json"
MOST: Final = 32
"""Kernels that are remembered, and compiled forms that are loaded; each is 8 ms of a processor."""
ALWAYS: Final = ("stoker.pipeline.compiled.loop:execute",)
TABLES: Final = "stoker.jit.compiler_tables:fill_for_users"
"""Comes first, if the last pipeline had code of users."""
_BESIDE: Final = ("stoker.order.", "stoker.dataset.")
"""Modules whose kernels every worker calls outside of programs; their callees come with them."""


def remember() -> None:
    """Write down the kernels that this process's engines call, before those of earlier engines."""
    beside = [fn for fn in kernels_done() if fn.__module__.startswith(_BESIDE)]
    inside = [callee for fn in beside for callee in referred(fn).values() if callee is not fn]
    called: list[Callable[..., Any]] = [
        *addressed(),
        *(fn for fn in beside if not any(fn is callee for callee in inside)),
    ]
    names = [name for name in map(_name, called) if name is not None]
    before = [name for name in remembered() if name != TABLES]
    kept = [*[TABLES] * are_for_users(), *dict.fromkeys([*names, *before])][:MOST]
    # A cache that cannot be written costs time, nothing else.
    with (
        contextlib.suppress(OSError, ResourceError),
        open_root(cache_root()) as folder,
        folder.replacing(FILE) as file,
    ):
        file.write(json.dumps(kept).encode())


def remembered() -> list[str]:
    """Return the names; an empty list if the file is missing or damaged.

    A name is `module:function`, of an adapted rule `module:template(module:rule)`.
    """
    try:
        with open_root(cache_root(), create=False) as folder, folder.reading(FILE) as path:
            found = json.loads(Path(path).read_text())
    except (OSError, ResourceError, ValueError):
        return []
    if not isinstance(found, list):
        return []
    return [name for name in found[:MOST] if isinstance(name, str) and _is_ours(name)]


def preload() -> None:
    """Load the kernels that are always called, and the recent ones; in the template."""
    load((*ALWAYS, *remembered()))


def load(names: Iterable[str]) -> int:
    """Load the kernels that are in the cache; return the number of compiled forms."""
    count = 0
    for name in names:
        if name == TABLES:
            fill_for_users()
            continue
        # An error here comes again in a worker, which can name the pipeline.
        with contextlib.suppress(Exception):
            found = _found(name)
            fast = compiled(found) if mark_of(found) is not None else found
            count += load_stored(fast, MOST - count)
    return count


def _name(fn: Callable[..., Any]) -> str | None:
    """Return the name of one of Stoker's kernels; None for any kernel that it does not find."""
    parts = parts_of(fn)
    if parts is not None:
        template, rule = map(_name, parts)
        return f"{template}({rule})" if template and rule else None
    module = importlib.import_module(fn.__module__) if is_ours(fn) else None
    return f"{fn.__module__}:{fn.__name__}" if getattr(module, fn.__name__, None) is fn else None


def _is_ours(name: str) -> bool:
    return all(part.startswith("stoker.") for part in name.split("("))


def _found(name: str) -> Any:
    """Return the object with a name; raises any exception if it does not exist."""
    outer, _, rule = name.removesuffix(")").partition("(")
    module, _, attribute = outer.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    return adapted(found, _found(rule)) if rule else found
