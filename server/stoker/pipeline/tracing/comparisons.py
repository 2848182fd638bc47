"""Comparisons of values that are not known yet: chained ones, `in`, and `match`."""

import ast
from typing import Any

from stoker.pipeline.tracing.syntax import SIMPLE, at_line_of, call_of, lambda_of


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
        if not middle or not all(isinstance(part, SIMPLE) for part in middle):
            return node
        lefts = [node.left, *middle]
        pairs = [
            ast.Compare(left, [op], [right])
            for left, op, right in zip(lefts, node.ops, node.comparators, strict=True)
        ]
        return at_line_of(call_of("_stoker_and", *(lambda_of(pair) for pair in pairs)), node)

    def visit_Match(self, node: ast.Match) -> Any:
        """Refuse a subject that is decided for each sample."""
        self.generic_visit(node)
        node.subject = call_of("_stoker_plain", node.subject, ast.Constant("match"))
        return node
