"""Checks that a graph is well-formed, beyond the types of its nodes.

Values are defined before they are used, in their block or an enclosing one; draws are not used as
values; expressions have the right number of arguments; both blocks of an `if` return the same
number of values; nodes, depth and parameters are within bounds; no draw uses a reserved stream
name, and no output has a name of a batch's own.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from stoker.pipeline.graph.nodes import (
    ELEMENT,
    EXPRESSIONS,
    MAX_DEPTH,
    MAX_INT,
    MAX_NODES,
    MAX_PARAMS_BYTES,
    MIN_INT,
    UNARY,
    Apply,
    Const,
    Draw,
    Expr,
    Fact,
    Form,
    If,
    Input,
    Node,
    Unneeded,
)
from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.errors import BuildError
from stoker.protocol.slot_layout import reserved
from stoker.rng.streams import RESERVED_PREFIX

_SIDE: Final = re.compile(r"-?[0-9]{1,2}", re.ASCII)


class Unchecked(Protocol):
    """The parts of a graph that are checked."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The outermost block."""
        ...

    @property
    def outputs(self) -> tuple[tuple[str, int], ...]:
        """Names and values."""
        ...

    @property
    def forms(self) -> tuple[Form, ...]:
        """Forms of outputs."""
        ...

    @property
    def unneeded(self) -> tuple[Unneeded, ...]:
        """Calls whose results are not used."""
        ...

    @property
    def unlinked(self) -> tuple[str, ...]:
        """Names of outputs that need not follow an image."""
        ...


def check(graph: Unchecked) -> None:
    """Check what types alone do not guarantee: scopes, sorts of values, bounds.

    Raises:
        BuildError: the graph is not well-formed.
    """
    checker = _Checker()
    visible = checker.block(graph.nodes, {}, 0)
    seen = set()
    for name, value in graph.outputs:
        checker.use(value, visible, f"output {name!r}", draws=False)
        if name in seen:
            raise BuildError(f"graph: output {name!r} is given twice")
        if why := reserved(name):
            raise BuildError(f"graph: {why}")
        seen.add(name)
    _check_forms(graph, seen)
    for number, call in enumerate(graph.unneeded):
        if any(isinstance(source, int) and source >= number for source in call.of):
            raise BuildError(f"graph: unneeded call {number} uses a call that does not precede it")
    if not graph.outputs:
        raise BuildError("graph: there are no outputs; return at least one named value")


def _check_forms(graph: Unchecked, seen: set[str]) -> None:
    """Check forms, and names of unlinked outputs; `seen` are the names of all outputs."""
    for name in graph.unlinked:
        if name not in seen:
            raise BuildError(f"graph: unlinked: expected the name of an output, got {name!r}")
    for form in graph.forms:
        if form.output not in seen:
            raise BuildError(
                f"graph: form of {form.output!r}: expected the name of an output without another "
                "form"
            )
        seen.remove(form.output)
        if form.form != "pad" and (form.multiple, form.fill, form.to) != (1, 0, "longest"):
            raise BuildError(
                f"graph: output {form.output!r}: only pad takes a multiple, a fill and a length"
            )
        if not abs(form.fill) <= MAX_INT:
            raise BuildError(
                f"graph: output {form.output!r}: expected a finite fill up to {MAX_INT}, got "
                f"{form.fill}"
            )


class _Checker:
    """One walk over a graph; `next` is the number of the next value, `nodes` counts nodes."""

    def __init__(self) -> None:
        self.next = 0
        self.nodes = 0

    def block(self, nodes: tuple[Node, ...], outer: dict[int, bool], depth: int) -> dict[int, bool]:
        if depth > MAX_DEPTH:
            raise BuildError(f"graph: blocks are nested deeper than {MAX_DEPTH}")
        visible = dict(outer)
        for node in nodes:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise BuildError(f"graph: more than {MAX_NODES} nodes")
            self.node(node, visible, depth)
            for _ in range(node.width):
                visible[self.next] = isinstance(node, Draw)
                self.next += 1
        return visible

    def node(self, node: Node, visible: dict[int, bool], depth: int) -> None:
        where = f"node {self.nodes - 1} ({type(node).__name__.lower()})"
        match node:
            case Input() | Fact():
                if depth:
                    raise BuildError(f"graph: {where}: inputs are allowed only at the top level")
            case Const():
                _check_const(node.value, where)
            case Draw():
                self.draw(node, visible, where)
            case Apply():
                self.apply(node, visible, where)
            case Expr():
                self.expr(node, visible, where)
            case If():
                self.branch(node, visible, depth, where)

    def draw(self, node: Draw, visible: dict[int, bool], where: str) -> None:
        for value in node.of:
            self.use(value, visible, where, draws=False)
        self.varying(node, visible, where)
        if node.stream is not None and node.stream.startswith(RESERVED_PREFIX):
            raise BuildError(
                f"graph: {where}: stream {node.stream!r}: names that begin with "
                f"{RESERVED_PREFIX!r} are reserved"
            )
        try:
            size = len(canonical_bytes(node.params))
        except (TypeError, ValueError, RecursionError) as error:
            raise BuildError(f"graph: {where}: parameters of {node.op}: {error}") from None
        if size > MAX_PARAMS_BYTES:
            raise BuildError(
                f"graph: {where}: parameters of {node.op}: at most {MAX_PARAMS_BYTES} bytes, "
                f"got {size}"
            )

    def varying(self, node: Draw, visible: dict[int, bool], where: str) -> None:
        for name, place, value in node.varies:
            self.use(value, visible, where, draws=False)
            given = node.params.get(name, ...)
            if place is not None:
                listed = isinstance(given, list | tuple) and place < len(given)
                given = given[place] if listed else ...
            if given is not None:
                got = repr(node.params[name]) if name in node.params else "no such parameter"
                raise BuildError(
                    f"graph: {where}: parameter {name!r} of {node.op} varies: expected null as its "
                    f"value, got {got}"
                )

    def apply(self, node: Apply, visible: dict[int, bool], where: str) -> None:
        self.use(node.draw, visible, where, draws=True)
        for value in node.to:
            self.use(value, visible, where, draws=False)
        if node.results not in (1, len(node.to)) or not node.to:
            raise BuildError(
                f"graph: {where}: expected one result for each of {len(node.to)} values (at least "
                f"one), or one for all of them, got {node.results}"
            )

    def expr(self, node: Expr, visible: dict[int, bool], where: str) -> None:
        if node.op not in EXPRESSIONS:
            raise BuildError(
                f"graph: {where}: unknown expression {node.op!r}; there are: "
                f"{', '.join(sorted(EXPRESSIONS))}"
            )
        if node.op == ELEMENT:
            good = len(node.args) >= 2
        else:
            good = len(node.args) == (1 if node.op in UNARY else 2)
        if not good:
            raise BuildError(f"graph: {where}: {node.op} got {len(node.args)} values")
        if node.op == "side" and not _SIDE.fullmatch(node.name):
            raise BuildError(
                f"graph: {where}: side: expected the number of a side, got {node.name!r}"
            )
        for value in node.args:
            self.use(value, visible, where, draws=node.op == "record")

    def branch(self, node: If, visible: dict[int, bool], depth: int, where: str) -> None:
        self.use(node.cond, visible, where, draws=False)
        if len(node.then.results) != len(node.orelse.results):
            raise BuildError(
                f"graph: {where}: expected both blocks to return the same number of values, got "
                f"{len(node.then.results)} and {len(node.orelse.results)}"
            )
        for block in (node.then, node.orelse):
            inner = self.block(block.nodes, visible, depth + 1)
            for value in block.results:
                self.use(value, inner, where, draws=False)

    def use(self, value: int, visible: dict[int, bool], where: str, *, draws: bool) -> None:
        if value not in visible:
            raise BuildError(f"graph: {where} uses value {value}, which is not defined before it")
        if visible[value] != draws:
            raise BuildError(
                f"graph: {where} uses value {value}: expected a {'draw' if draws else 'value'}, "
                f"got a {'draw' if visible[value] else 'value'}"
            )


def _check_const(value: bool | int | float, where: str) -> None:
    if isinstance(value, float):
        try:
            canonical_bytes(value)
        except ValueError as error:
            raise BuildError(f"graph: {where}: {error}") from None
    elif not MIN_INT <= value <= MAX_INT:
        raise BuildError(f"graph: {where}: expected an integer of 64 bits, got {value}")


def check_depth(data: object) -> None:
    """Refuse plain data that is nested deeper than a graph can be, without recursion.

    Raises:
        BuildError: it is nested too deeply.
    """
    level: list[object] = [data]
    for _ in range(6 * MAX_DEPTH):
        level = [
            item
            for part in level
            for item in (
                part.values()
                if isinstance(part, dict)
                else part
                if isinstance(part, list | tuple)
                else ()
            )
        ]
        if not level:
            return
    raise BuildError(f"graph: blocks are nested deeper than {MAX_DEPTH}")
