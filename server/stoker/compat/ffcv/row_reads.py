"""Read from the source of an operation which rows it reads.

`dst[i] = images[i - 1]` reads a row under another index than the one that it writes. A trial cannot
see that if a condition is never met, so the syntax tree is read too. It follows loops, and
variables made of their numbers; it does not look into helper functions. Nothing is executed.

`means[k] = images[k].mean()` in a loop of its own is a table of the rows. Such reads are those of
the row that is written if the table is read under the index that is written alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

FORMS: Final = {"shape", "dtype", "ndim", "size", "itemsize", "strides", "nbytes"}
"""Attributes of an array that hold no value of a row."""
GIVEN: Final = 2
"""Parameters that hold rows: the batch and the memory."""
NEW: Final = {"zeros", "zeros_like", "empty", "empty_like", "ones", "ones_like", "full"}
"""Functions of NumPy that return an array that nothing else refers to."""
LEAVING: Final = (ast.Expr, ast.Return, ast.Break, ast.Starred, ast.Global, ast.Nonlocal)
"""Nodes by which more than its tables could come out of a loop, such as `found.append(...)`."""


class RowReads(NamedTuple):
    """The rows that a function reads.

    Attributes:
        other: what reads another row than those that are written, as text; "": nothing does.
        line: its line in the file.
        is_certain: whether every use of the rows is under the index of a loop over them, so that
            only a variable could carry a value from row to row.
    """

    other: str
    line: int
    is_certain: bool


def row_reads(tree: ast.FunctionDef, first_line: int) -> RowReads:
    """Return how an operation's function reads rows.

    Args:
        tree: the function, as it is in its file.
        first_line: its first line there.
    """
    arrays = _aliases(tree, {argument.arg for argument in tree.args.args[:GIVEN]})
    loops = _loops(tree)
    names = _same(tree, loops)
    derived = _derived(tree, loops)
    of_forms = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in FORMS
    }
    reads: list[tuple[str, ast.Subscript]] = []
    writes: set[str] = set()
    indexed: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            continue
        first = _first(node)
        if node.value.id not in arrays or not _follows(first, derived):
            continue
        indexed.add(id(node.value))
        if isinstance(node.ctx, ast.Store):
            writes.add(_key(first, names))
        elif id(node) not in of_forms:
            reads.append((_key(first, names), node))
    written = writes or {_key(ast.Name(name), names) for name in loops}
    others = [node for key, node in reads if key not in written]
    of_tables = _of_tables(tree, arrays, writes, names) if others else set()
    others = [node for node in others if id(node) not in of_tables]
    apart = indexed | of_forms | _unread(tree)
    whole = any(
        isinstance(node, ast.Name)
        and node.id in arrays
        and isinstance(node.ctx, ast.Load)
        and id(node) not in apart
        for node in ast.walk(tree)
    )
    if others:
        return RowReads(ast.unparse(others[0]), first_line + others[0].lineno - 1, False)
    return RowReads("", 0, not whole and not of_tables)


def _of_tables(
    tree: ast.FunctionDef, arrays: set[str], writes: set[str], names: dict[str, str]
) -> set[int]:
    """Return the places of reads in loops that fill tables of the rows."""
    found: set[int] = set()
    for loop in tree.body if len(writes) == 1 else ():
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        row, parts = loop.target.id, list(ast.walk(loop))
        tables = _tables(parts, row)
        if tables and not tables & arrays and _stays(tree, parts, row, tables, writes, names):
            subscripts = (part for part in parts if isinstance(part, ast.Subscript))
            found.update(id(part) for part in subscripts if _key(_first(part), {}) == row)
    return found


def _tables(parts: list[ast.AST], row: str) -> set[str]:
    """Return the arrays that a loop fills under its number; empty: it may do more than that."""
    tables: set[str] = set()
    for part in parts:
        leaves = isinstance(part, LEAVING) or (isinstance(part, ast.keyword) and part.arg == "out")
        if leaves or (isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)):
            return set()
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            if not isinstance(part.value, ast.Name) or _key(_first(part), {}) != row:
                return set()
            tables.add(part.value.id)
    return tables


def _stays(
    tree: ast.FunctionDef,
    parts: list[ast.AST],
    row: str,
    tables: set[str],
    writes: set[str],
    names: dict[str, str],
) -> bool:
    """Return whether a loop's values are used under its number, or under the one written."""
    inside = {id(part) for part in parts if isinstance(part, ast.Name)}
    stored = [p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store)]
    if stored.count(row) != 1:
        return False
    indices = {
        id(node.value): _first(node) for node in ast.walk(tree) if isinstance(node, ast.Subscript)
    }
    made = {id(target) for target in _new(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name):
            continue
        within, index = id(node) in inside, indices.get(id(node))
        is_read = isinstance(node.ctx, ast.Load)
        if node.id in tables and index is not None:
            if (_key(index, {}) != row) if within else (_key(index, names) not in writes):
                return False
        elif node.id in tables:
            if within or id(node) not in made:
                return False
        elif node.id != row and node.id in stored and is_read and not within:
            return False
    return True


def _new(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the targets of new arrays that have one name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            called = node.value.func if isinstance(node.value, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in NEW:
                yield node.targets[0]


def _first(node: ast.Subscript) -> ast.expr:
    """Return the index of the first axis."""
    return (
        node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    )


def _unread(tree: ast.AST) -> set[int]:
    """Return the places of names whose values are only passed on, or counted."""
    found = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Return)}
    found.update(id(value) for _, value in _pairs(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            found.update(map(id, node.args))
    return found


def _pairs(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets and values of assignments; those of tuples one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                if both and len(target.elts) == len(node.value.elts):  # type: ignore[attr-defined]
                    yield from zip(target.elts, node.value.elts, strict=True)  # type: ignore[attr-defined]
                else:
                    yield target, node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value:
            yield node.target, node.value


def _aliases(tree: ast.AST, names: set[str]) -> set[str]:
    """Return names of the same arrays; the parts of a tuple of memories are among them."""
    found = set(names)
    for _ in range(GIVEN):
        for target, value in _pairs(tree):
            if isinstance(value, ast.Name) and value.id in found:
                found |= set(_names(target)) if isinstance(target, ast.Tuple | ast.Name) else set()
    return found


def _loops(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            found.update(_names(node.target))
        elif isinstance(node, ast.While):
            parts = (part for part in ast.walk(node) if isinstance(part, ast.AugAssign))
            found.update(part.target.id for part in parts if isinstance(part.target, ast.Name))
    return found


def _derived(tree: ast.AST, loops: set[str]) -> set[str]:
    """Return the names whose values follow a loop."""
    found, before = set(loops), set[str]()
    while found != before:
        before = set(found)
        for target, value in _pairs(tree):
            if isinstance(target, ast.Name) and found & set(_names(value)):
                found.add(target.id)
    return found


def _same(tree: ast.AST, loops: set[str]) -> dict[str, str]:
    """Return other names of the number of a loop -> its own."""
    return {
        target.id: value.id
        for target, value in _pairs(tree)
        if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in loops
    }


def _follows(index: ast.expr, derived: set[str]) -> bool:
    return not isinstance(index, ast.Slice) and not derived.isdisjoint(_names(index))


def _key(index: ast.expr, names: dict[str, str]) -> str:
    if isinstance(index, ast.Name):
        return names.get(index.id, index.id)
    return ast.unparse(index)


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
