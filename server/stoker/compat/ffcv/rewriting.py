"""Rewrite the function of an operation, so that it draws from its rows and can be compiled.

The function's syntax tree is read from its source file and changed in four ways:

- It gains two first parameters, the keys of the rows and the number of draws of each, and, unless
  it has it already, a last one for the sample ids.
- A call of a function of `np.random` becomes a call of `stoker.compat.ffcv.draws` with those; see
  `stoker.compat.ffcv.calls`.
- An assignment to an item, `array[i] = values`, becomes `stoker.compat.ffcv.assigning.assign`,
  which copies faster.
- Closure variables become globals: numba runs a loop over a `prange` from a closure on one core,
  but over a global one on all cores.

Randomness that cannot be bound to a row raises an error that names it: functions of `np.random`
without such a form, Python's `random`, and helper functions that draw. Lines and file stay the
user's. Runs once per operation, in the script's process, on code that the script has imported;
nothing received from elsewhere comes here.
"""

from __future__ import annotations

import ast
import inspect
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from stoker.compat.ffcv.assigning import assign
from stoker.compat.ffcv.calls import NAMES, Misuse, Replacement, replacement
from stoker.pipeline.tracing.edits import is_edited
from stoker.protocol.errors import BuildError

PREFIX: Final = "_stoker_"
ASSIGN: Final = PREFIX + "assign"
KEYS, COUNTS, INDICES = (PREFIX + name for name in ("keys", "counts", "indices"))


@dataclass(frozen=True)
class RewrittenFunction:
    """A function as `function(keys, counts, batch, dst, indices)`.

    Attributes:
        function: plain Python, with its own globals.
        by_row: whether it must get one row at a time: it draws single numbers, or in a loop.
        draws: whether it draws at all.
    """

    function: FunctionType
    by_row: bool
    draws: bool


def rewrite(function: Callable[..., Any], what: str, *, mixes: bool = False) -> RewrittenFunction:
    """Rewrite the function of an operation.

    Args:
        function: the result of `generate_code`.
        what: the operation, for messages.
        mixes: whether it is a batch op, which gets all rows at once.

    Raises:
        BuildError: its source cannot be found, or it draws from something that belongs to no row.
    """
    plain = _plain(function, what)
    tree, first_line = _tree(plain, what)
    code = plain.__code__
    names = {**plain.__globals__, **_closed_over(plain)}
    local = {*code.co_varnames, *code.co_cellvars}
    visitor = _Visitor(names, local, what, code.co_filename, first_line, mixes)
    changed = visitor.visit(tree)
    _add_parameters(changed, bool(getattr(function, "with_indices", False)))
    ast.increment_lineno(ast.fix_missing_locations(changed), first_line - 1)
    module = compile(ast.Module([changed], []), code.co_filename, "exec", dont_inherit=True)
    inner = next(item for item in module.co_consts if isinstance(item, CodeType))
    space = {**names, **visitor.used}
    made = FunctionType(inner, space, plain.__name__, plain.__defaults__)
    made.__module__ = plain.__module__
    return RewrittenFunction(made, visitor.by_row, visitor.draws)


def draws_globally(value: object) -> bool:
    """Whether a value is a function, generator or module of global randomness."""
    if value is np.random or value is random or value is np.random.seed:
        return True
    owner = getattr(value, "__self__", None)
    if isinstance(value, BuiltinMethodType | MethodType):
        return owner is np.random.mtrand._rand or owner is random._inst
    return False


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


def _add_parameters(tree: ast.FunctionDef, with_indices: bool) -> None:
    given = tree.args
    given.args[:0] = [ast.arg(KEYS), ast.arg(COUNTS)]
    if not with_indices and given.vararg is None:
        given.args.append(ast.arg(INDICES))
        if given.defaults:
            given.defaults.append(ast.Constant(None))


def _is_constant(node: ast.expr) -> bool:
    """Whether an index is `...` or `None`, and not a number."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, int)


class _Visitor(ast.NodeTransformer):
    """Finds every use of global randomness; `used` are the globals that the new code needs."""

    def __init__(
        self,
        names: dict[str, Any],
        local: set[str],
        what: str = "",
        file: str = "",
        first_line: int = 0,
        mixes: bool = False,
    ) -> None:
        self.used: dict[str, Any] = {}
        self.by_row = False
        self.draws = False
        self._names = names
        self._local = local
        self._what = what
        self._file = file
        self._first_line = first_line
        self._mixes = mixes
        self._loops = 0

    def visit_For(self, node: ast.For) -> Any:
        """Note that draws inside are in a loop."""
        return self._loop(node)

    def visit_While(self, node: ast.While) -> Any:
        """Note that draws inside are in a loop."""
        return self._loop(node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Replace a call of `np.random`; check called helper functions."""
        value = self._value(node.func)
        if isinstance(node.func, ast.Attribute | ast.Name) and draws_globally(value):
            node.args = [self.visit(argument) for argument in node.args]
            node.keywords = [self.visit(keyword) for keyword in node.keywords]
            return ast.copy_location(self._draw(node, value), node)
        self._check_helper(node, value)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Replace an assignment to an item or to a part that is indexed by integers."""
        self.generic_visit(node)
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Subscript):
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
        self._loops += 1
        try:
            return self.generic_visit(node)
        finally:
            self._loops -= 1

    def _other_use(self, node: Any) -> Any:
        if draws_globally(self._value(node)):
            raise self._fault(node, f"{ast.unparse(node)} cannot be passed on: call it directly")
        return self.generic_visit(node)

    def _value(self, node: ast.expr) -> Any:
        """Return the value of a name or of a module's attribute; None if it is unknown."""
        if isinstance(node, ast.Name):
            return None if node.id in self._local else self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        return None

    def _draw(self, node: ast.Call, value: Any) -> ast.Call:
        name = getattr(value, "__name__", "")
        numpy = (
            value is np.random.seed or getattr(value, "__self__", None) is np.random.mtrand._rand
        )
        if not numpy or name not in NAMES:
            raise self._fault(
                node,
                f"{ast.unparse(node.func)} cannot be drawn per row; supported functions of "
                f"np.random: {', '.join(NAMES)}",
            )
        try:
            found = replacement(node, name, self._value, mixes=self._mixes)
        except Misuse as error:
            raise self._fault(node, str(error)) from None
        self.draws = True
        self.by_row = self.by_row or found.by_row or self._loops > 0
        return self._called(found)

    def _called(self, call: Replacement) -> ast.Call:
        name = PREFIX + call.function.__name__
        self.used[name] = call.function
        given = [ast.Name(KEYS, ast.Load()), ast.Name(COUNTS, ast.Load()), *call.arguments]
        return ast.Call(ast.Name(name, ast.Load()), given, [])

    def _check_helper(self, node: ast.Call, value: Any) -> None:
        """Raise for a helper function that draws: it could not know for which row."""
        inner = getattr(value, "py_func", value)
        if not isinstance(inner, FunctionType) or inner.__module__.startswith(("numba", "numpy")):
            return
        names = {**inner.__globals__, **_closed_over(inner)}
        for used in ast.walk(_tree(inner, self._what)[0]):
            if isinstance(used, ast.Attribute | ast.Name):
                looker = _Visitor(names, set(inner.__code__.co_varnames))
                if draws_globally(looker._value(used)):
                    raise self._fault(
                        node,
                        f"{ast.unparse(node.func)} draws random numbers ({ast.unparse(used)}), but "
                        "cannot know for which row: draw in the operation's own function and pass "
                        "the numbers on",
                    )

    def _fault(self, node: ast.AST, message: str) -> BuildError:
        line = getattr(node, "lineno", 1) + self._first_line - 1
        return BuildError(
            f"{self._file}:{line}: {self._what}: {message}", file=self._file, line=line
        )
