"""Numbers that a pipeline's function draws itself: each would be constant for the whole training.

The function runs once, while it is traced, and not for each sample. So the states of generators are
compared before and after: the global ones of `random`, NumPy and PyTorch, and those that the code
of the function reaches by a name, a closure, or an attribute of its object. A draw is refused with
its line, which a second run under a trace function finds. Code that names a clock, a source of
entropy or a new generator is traced some more times; the graphs must be equal.

So a draw is refused that was made, and no code that could draw. What `ops.python` calls does not
run here. PyTorch is not imported for it. Runs in the author's process and in builders.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import random
import sys
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.ops.custom.foreign import generator_states, state_of
from stoker.ops.custom.purity import named
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.sites import NOWHERE, Site, is_user
from stoker.pipeline.tracing.value_refusals import fault

AGAIN: Final = 6
"""Number of further traces of code that names a clock or entropy."""
IDLE_S: Final = 0.02
"""Seconds that a generator whose state changed is watched for draws of other threads."""
MOST_FUNCTIONS: Final = 200
MOST_ELEMENTS: Final = 64
MOST_VALUES: Final = 10_000
"""Limits of the search; containers with more elements are not searched."""
CHANGING: Final = (
    np.random.default_rng, np.random.Generator, np.random.RandomState, np.random.SeedSequence,
    random.Random, random.SystemRandom, os.urandom, uuid.uuid1, uuid.uuid4,
    time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter,
    time.perf_counter_ns, datetime.datetime,
)  # fmt: skip
MODULES: Final = frozenset({"secrets", "time", "uuid"})
"""Modules of such values, where the code of a function imports them."""
REMEDY: Final = (
    "A pipeline's function runs once, when it is traced, so this would be one constant for the "
    "whole training. Let an op draw from its range, as in ops.rotate(image, degrees=9), or draw "
    "for each sample: give the function a second argument, ctx, and use ctx.uniform(low, high), "
    "ctx.integer(first, last) or ctx.chance(p). Compute a constant that is meant outside of the "
    "function"
)
_PATHS: Final = sysconfig.get_paths()
_PYTHON: Final = os.path.join(_PATHS["stdlib"], "")
_INSTALLED: Final = tuple(os.path.join(_PATHS[name], "") for name in ("purelib", "platlib"))
_TORCH: Final = os.path.join(_PATHS["platlib"], "torch", "")


class _Imported(str):
    """Name of a module that code imports itself."""


class _Reached(NamedTuple):
    """A value that code reaches, and where."""

    value: Any
    site: Site


def traced_once(define: Callable[..., Any], site: Site, run: Callable[[], Graph]) -> Graph:
    """Trace a function, and refuse it if it draws numbers or gives another graph each time.

    Args:
        define: the function.
        site: its line.
        run: traces it.

    Raises:
        BuildError: it drew; names the line, the generator and what to use instead.
    """
    reached = list(_reached(define, site))
    own = {id(one.value): one.value for one in reached if state_of(one.value) is not None}
    before, made, after = _run(own, run)
    if before.keys() != after.keys():  # it imported PyTorch
        before, made, after = _run(own, run)
    for key in before:
        if after[key] != before[key]:
            line = _drawing_line(run, functools.partial(_state, own, key))
            if line != NOWHERE:
                what = key if isinstance(key, str) else f"a {type(own[key]).__name__}"
                raise fault(f"the pipeline itself draws from {what}. {REMEDY}", line)
    changing = [one for one in reached if _changes(one.value)]
    if changing and any(run().digest != made.digest for _ in range(AGAIN)):
        value, line = changing[-1]
        own_name = getattr(value, "__name__", type(value).__name__)
        name = value if isinstance(value, str) else getattr(value, "__qualname__", own_name)
        raise fault(f"{name} gives another pipeline each time. {REMEDY}", line)
    return made


def _run(
    own: Mapping[int, Any], run: Callable[[], Graph]
) -> tuple[dict[str | int, Any], Graph, dict[str | int, Any]]:
    """Trace the function; return the states before, its graph, and the states after."""
    before = _states(own)
    made = run()
    return before, made, _states(own)


def _states(own: Mapping[int, Any]) -> dict[str | int, Any]:
    """Return the states of the global generators, by name, and of others, by identity."""
    found: dict[str | int, Any] = {}
    found.update(generator_states())
    found.update({key: state_of(value) for key, value in own.items()})
    return found


def _state(own: Mapping[int, Any], key: str | int) -> Any:
    return _states(own)[key]


def _changes(value: Any) -> bool:
    """Return whether a value may give another number in each run."""
    if isinstance(value, ModuleType):  # it may import what it is asked for
        return False
    if isinstance(getattr(value, "__self__", value), random.SystemRandom | _Imported):
        return True
    return getattr(value, "__module__", "") == "secrets" or any(value is one for one in CHANGING)


def _reached(define: Callable[..., Any], site: Site) -> Iterator[_Reached]:
    """Yield the values that the code of a function names, and that of functions of users it names.

    Arguments of a partial, attributes of the object of a method and elements of containers count.
    """
    waiting = [_Reached(define, site)]
    seen: set[int] = set()
    functions = 0
    folder = os.path.dirname(site.file)
    while waiting and functions < MOST_FUNCTIONS and len(seen) < MOST_VALUES:
        thing, line = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        found = list(_parts(thing, line))
        if isinstance(thing, FunctionType):
            functions += 1
            found = list(_named_by(thing, line, folder))
        yield from found
        waiting += found


def _parts(thing: Any, site: Site) -> Iterator[_Reached]:
    """Yield what a partial, a method or a container holds."""
    values: list[Any] = []
    if isinstance(thing, functools.partial):
        values = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, MethodType) and not _is_of_library(type(thing.__self__)):
        values = [thing.__func__, *getattr(thing.__self__, "__dict__", {}).values()]
        for base in type(thing.__self__).__mro__[:-1]:
            values += vars(base).values()
    elif isinstance(thing, dict | list | tuple) and len(thing) <= MOST_ELEMENTS:
        values = list(thing.values() if isinstance(thing, dict) else thing)
    return (_Reached(value, site) for value in values)


def _named_by(function: FunctionType, site: Site, folder: str) -> Iterator[_Reached]:
    """Yield what the code of a function names; of code of others, only what its closure holds."""
    code = function.__code__
    mine = not code.co_filename.startswith(_INSTALLED) or code.co_filename.startswith(folder)
    if mine and not _is_library(code):
        site = Site(code.co_filename, code.co_firstlineno)
        for one in named(code, function.__globals__):
            value = _Imported(one.name) if one.name in MODULES else one.value
            yield _Reached(value, Site(code.co_filename, one.line))
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it has no value yet
            yield _Reached(cell.cell_contents, site)


def _is_of_library(cls: type) -> bool:
    home = cls.__module__.partition(".")[0]
    return home in sys.stdlib_module_names - {"__main__"} or home in ("numpy", "stoker", "torch")


def _is_library(code: CodeType) -> bool:
    """Return whether code is Python's own, PyTorch's, NumPy's or Stoker's."""
    name = code.co_filename
    python = name.startswith(_PYTHON) and not name.startswith(_INSTALLED)
    return python or name.startswith(("<frozen ", "<string>", _TORCH)) or not is_user(code)


class _Line:
    """Looks for the first line of user code that changes a state; `sys.settrace` calls it."""

    def __init__(self, state: Callable[[], Any]) -> None:
        self.found = NOWHERE
        self._state, self._begun = state, state()
        self._before: dict[FrameType, int] = {}

    def enter(self, frame: FrameType, *_: Any) -> Any:
        """Look at a call, and follow it if it is one of user code."""
        if _is_library(frame.f_code) or frame.f_globals.get("__name__", "").startswith("stoker."):
            return None
        caller = frame.f_back
        while caller is not None and caller not in self._before:
            caller = caller.f_back
        if caller is not None:
            self._look(caller, caller.f_lineno)
        self._before[frame] = frame.f_lineno
        return self._follow

    def _follow(self, frame: FrameType, event: str, _: Any) -> Any:
        """Look at what the line before did, or at the end at the last one."""
        self._look(frame, frame.f_lineno if event == "return" else self._before[frame])
        self._before[frame] = frame.f_lineno
        return self._follow

    def _look(self, frame: FrameType, line: int) -> None:
        if self.found == NOWHERE and self._state() != self._begun:
            self.found = Site(frame.f_code.co_filename, line)


def _drawing_line(run: Callable[[], Graph], state: Callable[[], Any]) -> Site:
    """Trace again, and return the first line of user code that changes a state; or NOWHERE.

    If the state changes by itself, another thread draws, and nothing can be said.
    """
    idle = state()
    time.sleep(IDLE_S)
    if state() != idle:
        return NOWHERE
    line, before = _Line(state), sys.gettrace()
    sys.settrace(line.enter)
    try:
        with contextlib.suppress(Exception):  # another number may lead anywhere
            run()
    finally:
        sys.settrace(before)
    return line.found
