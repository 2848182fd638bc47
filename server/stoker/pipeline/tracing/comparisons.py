"""Questions about values that are not known yet: chained comparisons, `in`, `len`, and `match`."""

import ast
from typing import Any

from stoker.pipeline.tracing.syntax import SIMPLE, at_line_of, binds, call_of, lambda_of, name_of


def _chain(left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> ast.expr:
    """Return a chain whose operands are computed once, in Python's order.

    `a < f(b) < c` becomes `(lambda x, y: _stoker_and(lambda: x < y, lambda: y < c))(a, f(b))`.
    """
    if len(ops) == 1:
        return ast.Compare(left, ops, others)
    names = [f"_stoker_left_{len(ops)}", f"_stoker_right_{len(ops)}"]
    first = ast.Compare(name_of(names[0]), ops[:1], [name_of(names[1])])
    rest = _chain(name_of(names[1]), ops[1:], others[1:])
    both = call_of("_stoker_and", lambda_of(first), lambda_of(rest))
    return ast.Call(lambda_of(both, names), [left, others[0]], [])


class Comparisons(ast.NodeTransformer):
    """Replaces what Python would decide at once."""

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Replace `in` and `not in`, and split a chain into pairs joined by `and`."""
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.In | ast.NotIn) and len(node.ops) == 1:
            found = call_of("_stoker_in", node.left, node.comparators[0])
            if isinstance(node.ops[0], ast.NotIn):
                found = call_of("_stoker_not", found)
            return at_line_of(found, node)
        middle = node.comparators[:-1]
        if not middle or binds(node):
            return node
        if not all(isinstance(part, SIMPLE) for part in middle):
            return at_line_of(_chain(node.left, node.ops, node.comparators), node)
        lefts = [node.left, *middle]
        pairs = [
            ast.Compare(left, [op], [right])
            for left, op, right in zip(lefts, node.ops, node.comparators, strict=True)
        ]
        return at_line_of(call_of("_stoker_and", *(lambda_of(pair) for pair in pairs)), node)

    def visit_Call(self, node: ast.Call) -> Any:
        """Replace `len`, which Python lets return whole numbers only."""
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("len"), [value], []) if not isinstance(value, ast.Starred):
                return at_line_of(call_of("_stoker_len", node.func, value), node)
        return node

    def visit_Match(self, node: ast.Match) -> Any:
        """Refuse a subject that is decided for each sample."""
        self.generic_visit(node)
        node.subject = call_of("_stoker_plain", node.subject, ast.Constant("match"))
        return node
