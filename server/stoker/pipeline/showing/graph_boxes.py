"""A graph as boxes and lines, for its picture: fields, ops, conditions and outputs.

A box stands for a field, a fact about the row, an applied op, an expression, the join of an `if`,
or an output. Constants are words in the boxes that read them. A decision has no box: its op's name
and parameters are in each box that applies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import (
    Apply,
    ClassNumber,
    Const,
    Draw,
    Expr,
    Fact,
    If,
    Input,
    Node,
)

Look = Literal["field", "op", "number", "join", "output"]
WORDS = 24
"""Characters of a parameter's value that a box shows."""


@dataclass(frozen=True)
class Box:
    """A box of the picture.

    Attributes:
        look: what it stands for, which decides its outline.
        text: the first line.
        note: the second line, such as parameters; may be empty.
        about: what a pointer that rests on it shows, such as the line of the user's source.
    """

    look: Look
    text: str
    note: str = ""
    about: str = ""


@dataclass(frozen=True)
class Line:
    """A value that goes from one box to another; the numbers of both, and what it is there for."""

    start: int
    end: int
    label: str = ""


@dataclass
class GraphBoxes:
    """The boxes of a graph, each after those that it has lines from, and the lines."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def add(self, box: Box, sources: Sequence[tuple[int | None, str]]) -> int:
        """Add a box with lines from (box, label); None is a constant, which has no line."""
        self.boxes.append(box)
        number = len(self.boxes) - 1
        for source, label in dict.fromkeys(sources):
            if source is not None:
                self.lines.append(Line(source, number, label))
        return number


def graph_boxes(graph: Graph) -> GraphBoxes:
    """Return the boxes and lines of a graph."""
    reader = _Reader(graph)
    reader.read(graph.nodes)
    for name, value in graph.outputs:
        reader.found.add(Box("output", name), [(reader.made_by[value], "")])
    return reader.found


class _Reader:
    """Reads nodes in their order; knows for each value its box, its constant or its decision."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.found = GraphBoxes()
        self.made_by: list[int | None] = []
        self.constants: dict[int, str] = {}
        self.draws: dict[int, Draw] = {}

    def read(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, If):
                self._read_if(node)
                continue
            number = len(self.made_by)
            about = str(self.graph.site(number))
            box: int | None = None
            match node:
                case Input():
                    box = self.found.add(Box("field", node.field, "field", about), [])
                case Fact():
                    box = self.found.add(Box("number", node.name, "of the row", about), [])
                case Const():
                    self.constants[number] = f"{node.value:.6g}"
                case ClassNumber():
                    self.constants[number] = f"class {node.name!r}"
                case Draw():
                    self.draws[number] = node
                case Apply():
                    box = self._apply(node, about)
                case Expr():
                    box = self._expression(node, about)
            self.made_by += [box] * node.width

    def _apply(self, node: Apply, about: str) -> int:
        draw = self.draws[node.draw]
        note = ", ".join(f"{name} {_short(value)}" for name, value in draw.params.items())
        sources = [(self.made_by[value], "") for value in node.to]
        sources += [(self.made_by[value], "decides") for value in draw.of if value not in node.to]
        sources += [(self.made_by[value], name) for name, _, value in draw.varies]
        stream = f"stream {draw.stream}" if draw.stream else "draws nothing"
        return self.found.add(Box("op", draw.op, note, f"{stream}; {about}"), sources)

    def _expression(self, node: Expr, about: str) -> int:
        args = [self.constants.get(value, "·") for value in node.args]
        text = f"{node.op} {node.name}".rstrip()
        sources = [
            (self.made_by[self._shown(value)], "") for value in node.args if self._known(value)
        ]
        return self.found.add(Box("number", text, ", ".join(args), about), sources)

    def _known(self, value: int) -> bool:
        return value not in self.draws or bool(self.draws[value].of)

    def _shown(self, value: int) -> int:
        """Return the value whose box a line comes from: of a decision, the value it reads."""
        return self.draws[value].of[0] if value in self.draws else value

    def _read_if(self, node: If) -> None:
        for block in (node.then, node.orelse):
            self.read(block.nodes)
        for then, orelse in zip(node.then.results, node.orelse.results, strict=True):
            words = ", ".join(
                f"{name} {self.constants[value]}"
                for name, value in (("then", then), ("else", orelse))
                if value in self.constants
            )
            sources = [(node.cond, "if"), (then, "then"), (orelse, "else")]
            lines = [(self.made_by[value], label) for value, label in sources]
            self.made_by.append(self.found.add(Box("join", "if", words), lines))


def _short(value: Any) -> str:
    """Return the value of a parameter in a few characters."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= WORDS else f"{text[: WORDS - 1]}…"
