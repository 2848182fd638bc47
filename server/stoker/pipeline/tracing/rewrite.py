"""Rewriting the `if`s of a pipeline function, so that choices per sample can be traced.

The function's source is parsed and these are replaced (names with a leading `_stoker_` are the
functions of `stoker.pipeline.tracing.branches`):

    if c: x = f(x)           def then(x): x = f(x); return (x,)
    else: x = g(x)           def otherwise(x): x = g(x); return (x,)
                             (x,) = _stoker_if(c, then, otherwise, (x,), ("x",))
    a if c else b            _stoker_choose(c, lambda: a, lambda: b)
    a and b, a or b, not a   _stoker_and(lambda: a, lambda: b), _stoker_or(...), _stoker_not(a)
    a < b < c                _stoker_and(lambda: a < b, lambda: b < c)
    len(a)                   _stoker_len(len, a)
    if c: return a           if c: result = a
    return b                 else: result = b
                             return result

If the condition is a Python value, each does what Python does. Some `if`s keep their form: one that
contains a `return` that cannot be moved to the end (it is in a loop, or both branches of its `if`
may continue), or `break`, `continue`, `yield`, `global`, `nonlocal` or `del`; the same holds for
every `while`. Their conditions go through `_stoker_plain`, which refuses a condition that is
decided for each sample and names the line. An `if` that changes a list, dict or object from outside
of it is treated in the same way: both branches are traced, so both would change it for every
sample. (Changes by a function that the branch calls are not detected.) Lines stay those of the
user's file. A function whose source cannot be read is not changed.

A file may be edited after its import. The source of a pipeline is read when it is defined
(`remember`), that of other functions when they are called first; either is parsed only when it is
called. Source that does not compile to the code of the function is refused, unless the function has
no branches.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from stoker.pipeline.tracing import branches
from stoker.pipeline.tracing.branches import RESULT
from stoker.pipeline.tracing.comparisons import Comparisons
from stoker.pipeline.tracing.edits import (
    Key,
    has_branches,
    is_edited,
    keep_source,
    key_of,
    source_of,
)
from stoker.pipeline.tracing.syntax import at_line_of, binds, call_of, lambda_of, name_of
from stoker.protocol.errors import BuildError

HELPERS = {
    "_stoker_if": branches.run_if,
    "_stoker_choose": branches.choose,
    "_stoker_and": branches.both,
    "_stoker_or": branches.either,
    "_stoker_not": branches.negation,
    "_stoker_in": branches.member,
    "_stoker_len": branches.length,
    "_stoker_plain": branches.plain,
    "_stoker_get": branches.get,
}
_LEAVING = (
    ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Global,
    ast.Nonlocal, ast.Delete,
)  # fmt: skip
_CHANGING = frozenset(
    (
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
        "remove", "reverse", "setdefault", "sort", "update",
    )
)  # fmt: skip
"""Methods that change Python's containers."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def rewritten(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its branches rewritten; itself, if its source cannot be read."""
    if isinstance(fn, functools.partial):
        return functools.partial(rewritten(fn.func), *fn.args, **fn.keywords)
    if isinstance(fn, MethodType):
        return MethodType(rewritten(fn.__func__), fn.__self__)
    if not isinstance(fn, FunctionType) or hasattr(fn, "_stoker_rewritten"):
        return fn
    code = _known(fn)
    if code is None:
        return fn
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for name, helper in HELPERS.items():
        cells[name] = CellType(helper)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__
    functools.update_wrapper(made, fn)
    made._stoker_rewritten = True  # type: ignore[attr-defined]
    return made


def remember(fn: Callable[..., Any]) -> None:
    """Read the source of a function now, so that a later edit of its file changes nothing."""
    if not isinstance(fn, FunctionType) or hasattr(fn, "__wrapped__"):
        return
    if key_of(fn) not in _codes:
        keep_source(fn)


_codes: dict[Key, CodeType | None] = {}


def _known(fn: FunctionType) -> CodeType | None:
    """Return the rewritten code of a function, made once for all functions that share its code.

    The alternatives of a policy are many closures over few functions.
    """
    key = key_of(fn)
    if hasattr(fn, "__wrapped__"):  # its source is that of the inner function
        return _code(fn)
    if key not in _codes:
        _codes[key] = _code(fn)
    return _codes[key]


def _code(fn: FunctionType) -> CodeType | None:
    """Return the rewritten code of a function; None if its source cannot be read or is not needed.

    Raises:
        BuildError: the source is not that of the function, which has branches.
    """
    source = source_of(fn)
    tree = None if source is None else _parse(*source)
    if is_edited(fn, "".join(source[0]) if source else ""):
        if not has_branches(fn.__code__):
            return None
        raise BuildError(
            f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}: the file was edited after "
            f"{fn.__qualname__} was imported, so the source of its branches is gone: import it "
            "again, by a new process or kernel, or by importlib.reload"
        )
    if tree is None:
        return None
    names = (*fn.__code__.co_freevars, *HELPERS)
    tree.body = _with_one_exit(tree.body)
    return _code_of(_compile(_Rewriter().visit(tree), fn, names), fn.__name__)


def _parse(lines: list[str], first: int) -> ast.FunctionDef | None:
    """Return the function that begins at the index `first`; None if it is not whole."""
    try:
        tree = ast.parse(textwrap.dedent("".join(inspect.getblock(lines[first:]))))
    except SyntaxError:
        return None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    definition = tree.body[0]
    ast.increment_lineno(definition, first)
    definition.decorator_list = []
    return definition


def _compile(definition: ast.AST, fn: FunctionType, names: tuple[str, ...]) -> CodeType:
    """Compile the definition inside a function whose arguments are its free variables.

    A method is also compiled inside a class of the same name, so that private names keep theirs.
    """
    outer = fn.__qualname__.split(".")[:-1]
    body: list[Any] = [definition]
    if outer and outer[-1] != "<locals>":
        body = [ast.ClassDef(outer[-1], [], [], body, [])]
    if body[0].name not in names:  # a call by this name means the module's function, not this one
        body = [ast.Global([body[0].name]), *body]
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in names if name != "__class__"],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    factory = ast.FunctionDef("_stoker_factory", arguments, body, [])
    module = ast.fix_missing_locations(ast.Module([factory], []))
    flags = fn.__code__.co_flags & 0x1FFE000  # the future imports of the user's module
    code: CodeType = compile(
        module, fn.__code__.co_filename, "exec", flags=flags, dont_inherit=True
    )
    return code


def _code_of(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found = constant if constant.co_name == name else _code_of(constant, name)
            if found is not None:
                return found
    return None


class _Rewriter(Comparisons):
    """Replaces branches, innermost first."""

    def __init__(self) -> None:
        self.count = 0

    def visit_If(self, node: ast.If) -> Any:
        leaving = any(isinstance(part, _LEAVING) for part in _own(node.body + node.orelse))
        names = sorted(_assigned(node.body + node.orelse))
        changed = sorted(_changed(node.body) | _changed(node.orelse))
        self.generic_visit(node)
        if leaving or changed:
            words = ["if"] if leaving else ["change", changed[0]]
            node.test = call_of("_stoker_plain", node.test, *map(ast.Constant, words))
            return node
        self.count += 1
        then, orelse = f"_stoker_then_{self.count}", f"_stoker_else_{self.count}"
        values = ast.Tuple(
            [
                call_of("_stoker_get", lambda_of(name_of(name)), ast.Constant(name))
                for name in names
            ],
            ast.Load(),
        )
        call = call_of(
            "_stoker_if",
            node.test,
            name_of(then),
            name_of(orelse),
            values,
            ast.Tuple([ast.Constant(name) for name in names], ast.Load()),
        )
        result: ast.stmt = ast.Expr(call)
        if names:
            target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
            result = ast.Assign([target], call)
        made = [_branch(then, names, node.body), _branch(orelse, names, node.orelse), result]
        return [at_line_of(statement, node) for statement in made]

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        node.test = call_of("_stoker_plain", node.test, ast.Constant("while"))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if binds(node):
            return node
        return at_line_of(
            call_of("_stoker_choose", node.test, lambda_of(node.body), lambda_of(node.orelse)), node
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        if binds(node):
            return node
        helper = "_stoker_and" if isinstance(node.op, ast.And) else "_stoker_or"
        return at_line_of(call_of(helper, *(lambda_of(value) for value in node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return at_line_of(call_of("_stoker_not", node.operand), node)


def _with_one_exit(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a function's body with its returns turned into assignments, if they are in `if`s."""
    own = list(_own(body))
    if any(isinstance(part, ast.Yield | ast.YieldFrom | ast.Await) for part in own):
        return body
    if not any(isinstance(part, ast.If) and _returns(part) for part in own):
        return body
    ended = _ended(body)
    if ended is None:
        return body
    last = ast.Return(name_of(RESULT))
    return [*ended, at_line_of(last, body[-1])]


def _ended(body: list[ast.stmt]) -> list[ast.stmt] | None:
    """Return statements that end with an assignment to the result; None if that is not possible."""
    done: list[ast.stmt] = []
    for index, statement in enumerate(body):
        if isinstance(statement, ast.Return):
            return [*done, _result(statement.value, statement)]
        if isinstance(statement, ast.If) and _returns(statement):
            chosen = _ended_if(statement, body[index + 1 :])
            return None if chosen is None else [*done, chosen]
        if _returns(statement):
            return None
        done.append(statement)
    return [*done, _result(None, body[-1])] if body else None


def _ended_if(node: ast.If, rest: list[ast.stmt]) -> ast.stmt | None:
    """Return an `if` with the statements after it moved into the branch that continues."""
    goes_on = [_goes_on(branch) for branch in (node.body, node.orelse)]
    if all(goes_on) and rest:
        return None
    then, orelse = (
        _ended([*branch, *rest] if on else branch)
        if branch or (on and rest)
        else [_result(None, node)]
        for branch, on in zip((node.body, node.orelse), goes_on, strict=True)
    )
    if then is None or orelse is None:
        return None
    made: ast.stmt = at_line_of(ast.If(node.test, then, orelse), node)
    return made


def _returns(node: ast.stmt) -> bool:
    """Return whether a statement contains a `return` of its own function."""
    return not isinstance(node, _SCOPES) and any(isinstance(p, ast.Return) for p in _own([node]))


def _goes_on(body: list[ast.stmt]) -> bool:
    """Return whether execution may continue after the statements."""
    if not body:
        return True
    last = body[-1]
    if isinstance(last, ast.If):
        return _goes_on(last.body) or _goes_on(last.orelse)
    return not isinstance(last, ast.Return | ast.Raise)


def _result(value: ast.expr | None, like: ast.AST) -> ast.stmt:
    target = ast.Name(RESULT, ast.Store())
    made: ast.stmt = at_line_of(ast.Assign([target], value or ast.Constant(None)), like)
    return made


def _own(nodes: list[Any]) -> Iterator[ast.AST]:
    """Yield the nodes below these, without entering nested functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _own(list(ast.iter_child_nodes(node)))


def _assigned(nodes: list[Any]) -> set[str]:
    return _names(_own(nodes))


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


def _changed(nodes: list[Any]) -> set[str]:
    """Return the variables that statements change in part (set or delete) but do not assign."""
    own = list(_own(nodes))
    extended = list(_extended(own))
    found = {name.id for name in extended}
    for node in own:
        if isinstance(node, ast.Subscript | ast.Attribute):
            part = node.value if isinstance(node.ctx, ast.Store | ast.Del) else None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            part = node.func.value if node.func.attr in _CHANGING else None
        else:
            continue
        while isinstance(part, ast.Subscript | ast.Attribute):
            part = part.value
        if isinstance(part, ast.Name):
            found.add(part.id)
    return found - _names(node for node in own if node not in extended)


def _extended(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Yield each `x` of `x += [...]`, which changes a list in place."""
    for node in nodes:
        match node:
            case ast.AugAssign(target=ast.Name() as name, value=ast.List() | ast.ListComp()):
                yield name


def _branch(name: str, names: list[str], body: list[ast.stmt]) -> ast.FunctionDef:
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(argument) for argument in names],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    back = ast.Return(ast.Tuple([name_of(argument) for argument in names], ast.Load()))
    return ast.FunctionDef(name, arguments, [*body, back], [])
