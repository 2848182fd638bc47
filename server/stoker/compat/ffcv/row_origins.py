"""Finds the origin of a number: the row that a loop is at, or no row in particular.

`np.random.seed(indices[i])` in a loop over the rows means "this sample, always the same";
`np.random.seed(indices[-1])`, `np.random.seed(seed)` and the like mean "the same in all pipelines".
A row cannot tell them apart when the function runs, because it is alone then, so the syntax tree
decides: an index into the sample ids that follows a loop is of the first sort. Assignments, loops
over the ids themselves, and functions inside the function are followed. Nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

MOST_ROUNDS: Final = 16
"""Most rounds of reading a function until no name changes; each follows one more assignment."""
PAIRED: Final = {"enumerate": 1, "zip": 0}
"""Functions whose items are tuples -> the place of the first item that comes from an argument."""


class RowOrigin(IntEnum):
    """The origin of a value."""

    ELSEWHERE = 0
    ROWS = 1
    """One number for each row, such as the sample ids."""
    SAMPLE = 2
    """The number of the row that a loop is at."""


class Origins:
    """The origins of the names of a function."""

    def __init__(self, tree: ast.FunctionDef, given: Mapping[str, RowOrigin]) -> None:
        """Follow a function's names.

        Args:
            tree: the function.
            given: parameter -> its origin; ELSEWHERE for those that are missing.
        """
        self._names = dict(given)
        self._looped: set[str] = set()
        self._inside = {
            node.name: [a.arg for a in node.args.args]
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node is not tree
        }
        for _ in range(MOST_ROUNDS):
            before = dict(self._names), set(self._looped)
            for node in ast.walk(tree):
                self._follow(node)
            if before == (self._names, self._looped):
                break

    def of(self, node: ast.AST) -> RowOrigin:
        """Return the origin of an expression."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, RowOrigin.ELSEWHERE)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        return max(map(self.of, ast.iter_child_nodes(node)), default=RowOrigin.ELSEWHERE)

    def _item(self, node: ast.Subscript) -> RowOrigin:
        whole, index = self.of(node.value), self.of(node.slice)
        follows = index is RowOrigin.SAMPLE or self._is_looped(node.slice)
        if whole is RowOrigin.ELSEWHERE:
            return RowOrigin.SAMPLE if index is RowOrigin.SAMPLE else RowOrigin.ELSEWHERE
        if follows or whole is RowOrigin.SAMPLE:
            return RowOrigin.SAMPLE
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        return RowOrigin.ROWS if isinstance(first, ast.Slice) else RowOrigin.ELSEWHERE

    def _is_looped(self, node: ast.AST) -> bool:
        names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return not self._looped.isdisjoint(names)

    def _follow(self, node: ast.AST) -> None:
        if isinstance(node, ast.For | ast.comprehension):
            self._loop(node.target, node.iter)
        elif isinstance(node, ast.While):
            self._count(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            if node.value is not None:
                self._assign(node.target, node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for name, value in zip(self._inside.get(node.func.id, ()), node.args, strict=False):
                self._name(name, self.of(value), looped=self._is_looped(value))

    def _loop(self, target: ast.expr, over: ast.expr) -> None:
        """Note the targets of a loop: each follows it, and ids that it goes over are its row's."""
        paired = isinstance(over, ast.Call) and isinstance(over.func, ast.Name)
        start = PAIRED.get(over.func.id) if paired else None  # type: ignore[attr-defined]
        if start is not None and isinstance(target, ast.Tuple):
            for one in target.elts[:start]:
                self._each(one, RowOrigin.ELSEWHERE)
            for one, value in zip(target.elts[start:], over.args, strict=False):  # type: ignore[attr-defined]
                self._loop(one, value)
        else:
            self._each(target, RowOrigin.SAMPLE if self.of(over) else RowOrigin.ELSEWHERE)

    def _each(self, target: ast.expr, origin: RowOrigin) -> None:
        for name in _names_in(target):
            self._name(name, origin, looped=True)

    def _count(self, node: ast.While) -> None:
        """Note the names that a `while` counts up: those that are changed by their own value."""
        for part in ast.walk(node):
            if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
                self._looped.add(part.target.id)
            elif isinstance(part, ast.Assign):
                used = set(_names_in(part.value))
                self._looped.update(used & {n for t in part.targets for n in _names_in(t)})

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            values = value.elts if same else [value] * len(target.elts)  # type: ignore[attr-defined]
            for one, part in zip(target.elts, values, strict=True):
                self._assign(one, part)
        elif isinstance(target, ast.Name):
            self._name(target.id, self.of(value), looped=self._is_looped(value))
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            origin = RowOrigin.ROWS if self.of(value) else RowOrigin.ELSEWHERE
            self._name(target.value.id, origin, looped=False)

    def _name(self, name: str, origin: RowOrigin, *, looped: bool) -> None:
        self._names[name] = max(origin, self._names.get(name, RowOrigin.ELSEWHERE))
        if looped:
            self._looped.add(name)


def _names_in(node: ast.AST) -> Iterable[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
