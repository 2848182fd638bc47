"""Changes the syntax tree of an operation's function; see `stoker.compat.ffcv.rewriting`.

A `Replacer` visits the tree of one function: the operation's own, or a helper that draws. It finds
every use of global randomness, and replaces it or raises an error that names it.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Protocol

import numpy as np

from stoker.compat.ffcv.array_assignment import assign
from stoker.compat.ffcv.random_calls import (
    NAMES,
    PYTHON_NAMES,
    Misuse,
    Replacement,
    Setting,
    python_replacement,
    replacement,
)
from stoker.compat.ffcv.row_draws import drawing
from stoker.compat.ffcv.row_origins import Origins, RowOrigin
from stoker.protocol.errors import BuildError

PREFIX: Final = "_stoker_"
ASSIGN: Final = PREFIX + "assign"
KEYS, COUNTS, INDICES = (PREFIX + name for name in ("keys", "counts", "indices"))
LIBRARIES: Final = ("numba", "numpy")
"""Packages whose functions numba knows; none of them draws but those of `np.random`."""
SEEDERS: Final = ("default_rng", "RandomState", "Random")
"""Classes and functions that make a generator from a seed."""


class Helpers(Protocol):
    """The functions that an operation calls."""

    def draws(self, function: FunctionType) -> bool:
        """Return whether a function draws and is rewritten for that."""
        ...

    def rewritten(self, function: FunctionType, origins: tuple[RowOrigin, ...]) -> tuple[str, Any]:
        """Return the name and the new form of one that draws, for arguments of these origins."""
        ...


@dataclass(frozen=True)
class Place:
    """The place that is visited, for messages and for the values of names.

    Attributes:
        what: the operation.
        file: the file of the function.
        first_line: its first line there.
        names: the values of its globals and of the variables that it closes over.
        local: its own variables.
        mixes: whether the operation gets all rows at once.
        machine: whether it becomes machine code; if not, what cannot be replaced is left as it is,
            and draws from generators that are seeded for each row.
    """

    what: str
    file: str
    first_line: int
    names: Mapping[str, Any]
    local: frozenset[str]
    mixes: bool
    machine: bool


class Replacer(ast.NodeTransformer):
    """Finds every use of global randomness.

    Attributes:
        used: the globals that the new code needs.
        by_row: whether it draws single numbers, orders, in a loop or in another function.
        loops: whether it draws in a loop.
        draws: whether it draws.
        seeds: whether it seeds rows with a number that is the same in all pipelines.
    """

    def __init__(self, place: Place, origins: Origins, helpers: Helpers) -> None:
        self.used: dict[str, Any] = {}
        self.by_row = self.loops = self.draws = self.seeds = False
        self._place = place
        self._origins = origins
        self._helpers = helpers
        self._depth = 0
        self._functions = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Note that draws in a function inside the function may be called in a loop."""
        if not self._functions:
            self._functions += 1
            return self.generic_visit(node)
        return self._loop(node)

    def visit_For(self, node: ast.For) -> Any:
        """Note that draws inside are in a loop."""
        return self._loop(node)

    def visit_While(self, node: ast.While) -> Any:
        """Note that draws inside are in a loop."""
        return self._loop(node)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """Note that draws inside are in a loop."""
        return self._loop(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        """Note that draws inside are in a loop."""
        return self._loop(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Replace a call of `np.random` or `random`, and that of a helper function that draws."""
        value = self.value(node.func)
        if draws_globally(value) and not isinstance(value, ModuleType):
            return self._drawn(node, value)
        self._check_seed(node, value)
        inner = function_in(value)
        if inner is None:
            return self.generic_visit(node)
        calls = self._helpers.draws(inner)
        if calls:
            name, found = self._helpers.rewritten(inner, tuple(map(self._origins.of, node.args)))
            self.used[name] = found.function
            self._note(by_row=True, loops=found.loops, seeds=found.seeds)
            node.func = ast.Name(name, ast.Load())
        self._visit_arguments(node)
        if calls:
            node.args[:0] = [ast.Name(KEYS, ast.Load()), ast.Name(COUNTS, ast.Load())]
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Replace an assignment to an item or to a part that is indexed by integers."""
        self.generic_visit(node)
        target = node.targets[0]
        if (
            len(node.targets) > 1
            or not isinstance(target, ast.Subscript)
            or not self._place.machine
        ):
            return node
        index = target.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if any(isinstance(part, ast.Slice | ast.Starred) or _is_constant(part) for part in parts):
            return node
        self.used[ASSIGN] = assign
        given = [target.value, ast.Tuple(parts, ast.Load()), node.value]
        call = ast.Call(ast.Name(ASSIGN, ast.Load()), given, [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Raise for any other use of global randomness."""
        return self._other_use(node)

    def visit_Name(self, node: ast.Name) -> Any:
        """Raise for any other use of global randomness."""
        return self._other_use(node)

    def _loop(self, node: Any) -> Any:
        self._depth += 1
        try:
            return self.generic_visit(node)
        finally:
            self._depth -= 1

    def _other_use(self, node: Any) -> Any:
        value = self.value(node)
        is_helper = self._holds_draws(value)
        if self._place.machine and (is_helper or draws_globally(value)):
            what = " draws random numbers, so it" if is_helper else ""
            raise self._fault(
                node, f"{ast.unparse(node)}{what} cannot be passed on: call it directly"
            )
        return self.generic_visit(node)

    def _holds_draws(self, value: Any) -> bool:
        """Return whether a value is a helper that draws, or holds one."""
        if isinstance(value, tuple | list):
            return any(map(self._holds_draws, value))
        inner = function_in(value)
        return inner is not None and self._helpers.draws(inner)

    def value(self, node: ast.expr) -> Any:
        """Return the value of a name, a module's attribute or an item; None if it is unknown."""
        place = self._place
        if isinstance(node, ast.Name):
            return None if node.id in place.local else place.names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        return None

    def _drawn(self, node: ast.Call, value: Any) -> ast.expr:
        self._visit_arguments(node)
        found = self._replacement(node, value)
        if found is None:
            return node
        self._note(by_row=found.by_row, loops=False, seeds=found.function.__name__ == "seed_shared")
        return ast.copy_location(self._called(found), node)

    def _visit_arguments(self, node: ast.Call) -> None:
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]

    def _note(self, *, by_row: bool, loops: bool, seeds: bool) -> None:
        self.draws = True
        self.loops = self.loops or loops or self._depth > 0
        self.by_row = self.by_row or by_row or self.loops
        self.seeds = self.seeds or seeds

    def _replacement(self, node: ast.Call, value: Any) -> Replacement | None:
        """Return what replaces a draw; None if it is left as it is."""
        name = getattr(value, "__name__", "")
        owner = getattr(value, "__self__", None)
        pythons = owner is random._inst
        if name not in (PYTHON_NAMES if pythons else NAMES) or not (
            pythons or value is np.random.seed or owner is np.random.mtrand._rand
        ):
            if not self._place.machine:
                return None
            raise self._fault(
                node,
                f"{ast.unparse(node.func)} cannot be drawn per row; supported functions of "
                f"np.random: {', '.join(NAMES)}; of random: {', '.join(PYTHON_NAMES)}",
            )
        setting = Setting(
            self.value,
            self._place.mixes,
            lambda number: self._origins.of(number) is RowOrigin.SAMPLE,
        )
        try:
            return (python_replacement if pythons else replacement)(node, name, setting)
        except Misuse as error:
            raise self._fault(node, str(error)) from None

    def _called(self, call: Replacement) -> ast.Call:
        name = PREFIX + call.function.__name__
        self.used[name] = call.function
        rows: list[ast.expr] = [ast.Name(KEYS, ast.Load()), ast.Name(COUNTS, ast.Load())]
        if self._place.mixes and call.size is not None:
            self.used[PREFIX + drawing.__name__] = drawing
            which = ast.Name(PREFIX + drawing.__name__, ast.Load())
            rows = [ast.Call(which, [row, call.size], []) for row in rows]
        return ast.Call(ast.Name(name, ast.Load()), [*rows, *call.arguments], [])

    def _check_seed(self, node: ast.Call, value: Any) -> None:
        """Raise for a generator of its own that would draw the same in every epoch."""
        known = getattr(value, "__module__", None) or ""
        if getattr(value, "__name__", "") not in SEEDERS or not known.startswith(
            ("numpy.random", "random")
        ):
            return
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not given or self._origins.of(given[0]) is not RowOrigin.SAMPLE:
            raise self._fault(
                node,
                f"{ast.unparse(node)}: a generator with a seed that is not the sample's own would "
                "draw the same in every epoch: seed it with indices[i] in a loop over the rows, or "
                "draw from np.random",
            )

    def _fault(self, node: ast.AST, message: str) -> BuildError:
        place = self._place
        line = getattr(node, "lineno", 1) + place.first_line - 1
        return BuildError(
            f"{place.file}:{line}: {place.what}: {message}", file=place.file, line=line
        )


def function_in(value: Any) -> FunctionType | None:
    """Return a function of the user: itself, or the one in a numba dispatcher."""
    inner = getattr(value, "py_func", value)
    is_theirs = isinstance(inner, FunctionType) and not inner.__module__.startswith(LIBRARIES)
    return inner if is_theirs else None


def draws_globally(value: object) -> bool:
    """Return whether a value is a function, generator or module of global randomness."""
    if value is np.random or value is random or value is np.random.seed:
        return True
    owner = getattr(value, "__self__", None)
    if isinstance(value, BuiltinMethodType | MethodType):
        return owner is np.random.mtrand._rand or owner is random._inst
    return False


def _is_constant(node: ast.expr) -> bool:
    """Return whether an index is `...` or `None`, and not a number."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, int)
