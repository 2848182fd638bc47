"""The values of a pipeline that depend only on the place in the stream; schedules use them."""

from __future__ import annotations

from typing import Any

from stoker.pipeline.graph.nodes import Const, Expr, Fact, If, Node
from stoker.pipeline.graph.schedule import FACTS, OF_BUCKET, OF_VALUES


class ScheduledValues:
    """The values of a graph under construction that are the same for all rows of a step."""

    def __init__(self) -> None:
        self._found: set[int] = set()
        self._nodes: dict[int, Node] = {}

    def __contains__(self, value: int) -> bool:
        return value in self._found

    def note(self, node: Node, first: int) -> None:
        """Note a node, and the number of its first value."""
        self._nodes[first] = node
        match node:
            case Const():
                self._found.add(first)
            case Fact() if node.name in (*FACTS, *OF_BUCKET):
                self._found.add(first)
            case Expr() if node.op not in OF_VALUES and self._found.issuperset(node.args):
                self._found.add(first)
            case If() if node.cond in self._found:
                pairs = zip(node.then.results, node.orelse.results, strict=True)
                for index, pair in enumerate(pairs):
                    if self._found.issuperset(pair):
                        self._found.add(first + index)

    def formula(self, value: int) -> Any:
        """Return how a value is computed as plain data: equal for equal formulas."""
        node = self._nodes.get(value)
        match node:
            case Const():
                return node.value
            case Fact():
                return [node.name]
            case Expr():
                return [node.op, node.name, *map(self.formula, node.args)]
        return {"value": value}
