"""Machine code that builds needed lately: the template loads it once, before it forks workers.

A worker spends most of its start on loading compiled kernels, and sixteen workers load the same
ones. Which kernels the next pipeline will call nobody knows, but it is mostly that of the last
time. So a builder writes the names of Stoker's kernels that its pipeline calls into a file of the
kernel cache, and the template loads what the cache has of them; its children inherit it. Nothing is
compiled for this, and what is wrong with the file or the cache costs time, nothing else. Kernels of
users are not among them: the template imports no code but Stoker's.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from stoker.pipeline.plan import Plan
from stoker.pipeline.program import write_program
from stoker.rng.diskcache import load_stored
from stoker.rng.jit import cache_root, compiled, kernels_done
from stoker.rng.kernels import is_ours, mark_of

FILE: Final = "recent.json"
MOST: Final = 32
"""Kernels that are remembered, and compiled forms that are loaded; each is 8 ms of a processor."""
ALWAYS: Final = ("stoker.pipeline.loop:execute",)
_BESIDE: Final = ("stoker.order.", "stoker.dataset.")
"""Modules whose kernels no program calls, but every worker."""


def remember(plan: Plan) -> None:
    """Write down which kernels a pipeline's workers load, before those of other pipelines."""
    called = [call.function for call in write_program(plan).calls.values()]
    called += [fn for fn in kernels_done() if fn.__module__.startswith(_BESIDE)]
    names = [f"{fn.__module__}:{fn.__name__}" for fn in called if _is_named(fn)]
    kept = list(dict.fromkeys([*names, *remembered()]))[:MOST]
    path = cache_root() / FILE
    part = path.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, nothing else
        part.write_text(json.dumps(kept))
        os.replace(part, path)


def remembered() -> list[str]:
    """Return the names, `module:function`; none where there is no such file, or it is damaged."""
    try:
        found = json.loads(Path(cache_root(), FILE).read_text())
    except (OSError, ValueError):
        return []
    if not isinstance(found, list):
        return []
    return [name for name in found[:MOST] if isinstance(name, str) and name.startswith("stoker.")]


def preload() -> None:
    """Load what is always called, and what was lately; in the template."""
    load((*ALWAYS, *remembered()))


def load(names: Iterable[str]) -> int:
    """Load what the cache has of kernels; return how many compiled forms that are."""
    count = 0
    for name in names:
        # What fails here fails in a worker too, which can say of what pipeline it is.
        with contextlib.suppress(Exception):
            module, _, attribute = name.partition(":")
            found: Any = getattr(importlib.import_module(module), attribute)
            fast = compiled(found) if mark_of(found) is not None else found
            count += load_stored(fast, MOST - count)
    return count


def _is_named(fn: Any) -> bool:
    """Whether a function is Stoker's and is found by its name, as adapted ones are not."""
    module = importlib.import_module(fn.__module__) if is_ours(fn) else None
    return getattr(module, fn.__name__, None) is fn
