"""Rewrite the function of an operation, so that it draws from its rows and can be compiled.

The function's syntax tree is read from its source file and changed in five ways:

- It gains two first parameters, the keys of the rows and the number of draws of each, and, unless
  it has it already, a last one for the sample ids.
- A call of a function of `np.random` or `random` becomes a call of
  `stoker.compat.ffcv.row_draws` with those; see `stoker.compat.ffcv.random_calls`.
- A helper function that draws is rewritten in the same way, and its calls pass those on.
- An assignment to an item, `array[i] = values`, becomes
  `stoker.compat.ffcv.array_assignment.assign`, which copies faster.
- Closure variables become globals: numba runs a loop over a `prange` from a closure on one core,
  but over a global one on all cores.

Randomness that cannot be bound to a row raises an error that names it, or, in a function that stays
Python, is left as it is. Lines and file stay the user's. Runs once per operation, in the script's
process, on code that the script has imported; nothing received from elsewhere comes here.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from stoker.compat.ffcv.random_calls import COMPILED
from stoker.compat.ffcv.replacing import (
    COUNTS,
    INDICES,
    KEYS,
    PREFIX,
    Place,
    Replacer,
    draws_globally,
    function_in,
)
from stoker.compat.ffcv.row_origins import Origins, RowOrigin
from stoker.compat.ffcv.row_reads import RowReads, row_reads
from stoker.pipeline.tracing.edits import is_edited
from stoker.protocol.errors import BuildError

HELPER: Final = PREFIX + "helper_"
ROWS_PARAMETER: Final = 2
"""Place of the sample ids among the parameters of an operation's function."""


@dataclass(frozen=True)
class RewrittenFunction:
    """A function as `function(keys, counts, batch, dst, indices)`.

    Attributes:
        function: plain Python, with its own globals.
        by_row: whether it must get one row at a time: it draws single numbers, in a loop, or in a
            helper.
        draws: whether it draws at all.
        loops: whether it draws in a loop.
        seeds: whether it seeds rows with a number that is the same in all pipelines, so that its
            keys have ten words.
        calls_machine_code: whether a helper is compiled already, without checks of its indices.
        reads: how its source reads rows.
    """

    function: FunctionType
    by_row: bool
    draws: bool
    loops: bool
    seeds: bool
    calls_machine_code: bool
    reads: RowReads


def rewrite(
    function: Callable[..., Any], what: str, *, mixes: bool = False, machine: bool = True
) -> RewrittenFunction:
    """Rewrite the function of an operation.

    Args:
        function: the result of `generate_code`.
        what: the operation, for messages.
        mixes: whether it is a batch op, which gets all rows at once.
        machine: whether it becomes machine code; otherwise it stays Python.

    Raises:
        BuildError: its source cannot be found, or it draws from something that belongs to no row.
    """
    plain = _plain(function, what)
    if getattr(function, "with_counter", False):
        raise BuildError(
            f"{what}: with_counter is not of FFCV, but of its fork FFCV-SSL; a row must not depend "
            "on how many batches came before: seed with indices[-1], which is new in each epoch, "
            "and set with_indices = True"
        )
    with_indices = bool(getattr(function, "with_indices", False))
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    given = {name: RowOrigin.ROWS for name in names[ROWS_PARAMETER:] if with_indices}
    return _Rewriting(what, mixes, machine, plain.__module__ or "").of(plain, given, with_indices)


def rebound(
    function: FunctionType,
    draw: Callable[[Callable[..., Any]], Any],
    helper: Callable[[FunctionType], Any],
) -> FunctionType:
    """Return a rewritten function that calls other forms of its draws and helpers.

    Args:
        function: the function.
        draw: a function of `stoker.compat.ffcv.row_draws` -> what is called instead.
        helper: a rewritten helper, whose own calls are changed already -> what is called instead.
    """
    space = dict(function.__globals__)
    for name, value in function.__globals__.items():
        if name.startswith(HELPER):
            space[name] = helper(rebound(value, draw, helper))
        elif name.startswith(PREFIX) and value in COMPILED:
            space[name] = draw(value)
    return _made(function, function.__code__, space)


def without_machine_code(function: FunctionType) -> FunctionType:
    """Return a function whose helpers, and theirs, are Python where the user has compiled them."""
    made: dict[FunctionType, FunctionType] = {}

    def plain(value: Any) -> Any:
        if type(value) in {tuple, list}:
            return type(value)(map(plain, value))
        inner = function_in(value)
        ours = inner is None or (inner.__module__ or "").partition(".")[0] == "stoker"
        return value if inner is None or ours else copy(inner)

    def copy(inner: FunctionType) -> FunctionType:
        if inner not in made:
            space = dict(inner.__globals__)
            cells = tuple(CellType(cell.cell_contents) for cell in inner.__closure__ or ())
            made[inner] = _made(inner, inner.__code__, space, cells)
            names = {name for code in _codes(inner.__code__) for name in code.co_names}
            space.update({name: plain(space[name]) for name in names & space.keys()})
            for cell in cells:
                cell.cell_contents = plain(cell.cell_contents)
        return made[inner]

    return copy(function)


class _Rewriting:
    """Rewrites one operation: its function, and the helpers that draw."""

    def __init__(self, what: str, mixes: bool, machine: bool, module: str) -> None:
        self._what = what
        self._mixes = mixes
        self._machine = machine
        self._package = module.partition(".")[0]
        self._drawing: dict[FunctionType, bool] = {}
        self._helpers: dict[tuple[FunctionType, tuple[RowOrigin, ...]], Any] = {}

    def of(
        self, plain: FunctionType, given: dict[str, RowOrigin], with_indices: bool | None
    ) -> RewrittenFunction:
        """Rewrite a function; `with_indices` is None for a helper."""
        tree, first_line = _tree(plain, self._what)
        code = plain.__code__
        names = {**plain.__globals__, **_closed_over(plain)}
        local = frozenset((*code.co_varnames, *code.co_cellvars))
        reads = row_reads(tree, first_line)
        place = Place(
            self._what, code.co_filename, first_line, names, local, self._mixes, self._machine
        )
        replacer = Replacer(place, Origins(tree, given), self)
        changed = replacer.visit(tree)
        _add_parameters(changed, with_indices)
        ast.increment_lineno(ast.fix_missing_locations(changed), first_line - 1)
        module = compile(ast.Module([changed], []), code.co_filename, "exec", dont_inherit=True)
        inner = next(item for item in module.co_consts if isinstance(item, CodeType))
        made = _made(plain, inner, {**names, **replacer.used})
        return RewrittenFunction(
            made,
            replacer.by_row,
            replacer.draws,
            replacer.loops,
            replacer.seeds,
            self._calls_machine_code(plain, set()),
            reads,
        )

    def draws(self, function: FunctionType) -> bool:
        """Return whether a helper draws, and is rewritten for that.

        In a function that stays Python, code of other packages draws from generators of the
        process.
        """
        ours = self._machine or (function.__module__ or "").partition(".")[0] == self._package
        return ours and self._draws(function)

    def rewritten(self, function: FunctionType, origins: tuple[RowOrigin, ...]) -> tuple[str, Any]:
        """Return the name and the new form of a helper that draws.

        Raises:
            BuildError: it calls itself.
        """
        found: Any = self._helpers.get((function, origins), ...)
        if found is None:
            raise BuildError(
                f"{self._what}: {function.__qualname__} draws random numbers and calls itself: "
                "write it as a loop, or draw before it is called"
            )
        if found is ...:
            self._helpers[function, origins] = None
            number = len(self._helpers)
            given = dict(zip(function.__code__.co_varnames, origins, strict=False))
            rewritten = self.of(function, given, None)
            found = f"{HELPER}{number}_{function.__name__}", rewritten
            self._helpers[function, origins] = found
        name, function_there = found
        return name, function_there

    def _draws(self, function: FunctionType) -> bool:
        """Return whether a function draws, itself or by the functions that it calls."""
        if function not in self._drawing:
            self._drawing[function] = False  # until it is known: it may call itself
            self._drawing[function] = any(map(self._is_drawing, self._used(function)))
        return self._drawing[function]

    def _calls_machine_code(self, function: FunctionType, seen: set[FunctionType]) -> bool:
        """Return whether a function calls one that the user has compiled."""
        seen.add(function)
        for value in self._used(function):
            for one in value if isinstance(value, tuple | list) else (value,):
                inner = function_in(one)
                if (
                    inner is not None
                    and inner not in seen
                    and (inner is not one or self._calls_machine_code(inner, seen))
                ):
                    return True
        return False

    def _used(self, function: FunctionType) -> Iterator[Any]:
        """Yield what a function refers to."""
        names = {**function.__globals__, **_closed_over(function)}
        try:
            tree = _tree(function, self._what)[0]
        except BuildError:  # no source: a lambda, or code that was typed in
            used = {name for code in _codes(function.__code__) for name in code.co_names}
            used.update(function.__code__.co_freevars)
            modules = {names.get(name) for name in used if isinstance(names.get(name), ModuleType)}
            yield from (names[name] for name in used if name in names)
            yield from (getattr(module, name, None) for module in modules for name in used)
            return
        local = frozenset(function.__code__.co_varnames)
        place = Place("", "", 0, names, local, False, self._machine)
        looker = Replacer(place, Origins(tree, {}), self)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute | ast.Name):
                yield looker.value(node)

    def _is_drawing(self, value: Any) -> bool:
        if draws_globally(value):
            return True
        inner = function_in(value)
        return inner is not None and self._draws(inner)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _codes(item)


def _made(
    function: FunctionType, code: CodeType, space: dict[str, Any], cells: tuple[CellType, ...] = ()
) -> FunctionType:
    made = FunctionType(code, space, function.__name__, function.__defaults__, cells or None)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__ = function.__module__
    return made


def _plain(function: Callable[..., Any], what: str) -> FunctionType:
    inner = getattr(function, "py_func", function)  # a numba dispatcher has this attribute
    if not isinstance(inner, FunctionType) or inner.__name__ == "<lambda>":
        raise BuildError(
            f"{what}: generate_code must return a function made with `def`, got {function!r}"
        )
    return inner


def _tree(function: FunctionType, what: str) -> tuple[ast.FunctionDef, int]:
    try:
        lines, first_line = inspect.getsourcelines(function)
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, SyntaxError, ValueError):
        raise BuildError(
            f"{what}: cannot find the source of {function.__qualname__}; operations are "
            "rewritten from their source, so put it into a file"
        ) from None
    if not isinstance(tree, ast.FunctionDef):
        raise BuildError(f"{what}: expected {function.__qualname__} to be a plain `def`")
    if is_edited(function):
        raise BuildError(
            f"{what}: {function.__code__.co_filename} was edited after it was imported, and "
            "operations are rewritten from their source: import it again, by a new process or "
            "kernel, or by importlib.reload"
        )
    tree.decorator_list = []
    return tree, first_line


def _closed_over(function: FunctionType) -> dict[str, Any]:
    cells = function.__closure__ or ()
    return {
        name: cell.cell_contents
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True)
    }


def _add_parameters(tree: ast.FunctionDef, with_indices: bool | None) -> None:
    given = tree.args
    given.args[:0] = [ast.arg(KEYS), ast.arg(COUNTS)]
    if with_indices is False and given.vararg is None:
        given.args.append(ast.arg(INDICES))
        if given.defaults:
            given.defaults.append(ast.Constant(None))
