"""Small parts of syntax trees that the rewriting of branches is made of."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

SIMPLE = (ast.Name, ast.Attribute, ast.Constant)


def name_of(name: str) -> ast.Name:
    """Return the reading of a variable."""
    return ast.Name(name, ast.Load())


def call_of(helper: str, *args: ast.expr) -> ast.Call:
    """Return the call of a helper."""
    return ast.Call(name_of(helper), list(args), [])


def lambda_of(body: ast.expr, names: Sequence[str] = ()) -> ast.Lambda:
    """Return a function of these arguments that evaluates an expression."""
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in names],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    return ast.Lambda(arguments, body)


def binds(node: ast.AST) -> bool:
    """Return whether an expression sets a variable or leaves its function: it cannot be moved."""
    return any(
        isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await)
        for part in ast.walk(node)
    )


def at_line_of(node: Any, like: ast.AST) -> Any:
    """Give a new node, and its parts without a line, the line of the old one."""
    ast.copy_location(node, like)
    for part in ast.walk(node):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            ast.copy_location(part, like)
    return node
