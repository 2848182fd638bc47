"""The graph v1: a pipeline as plain data, versioned and bounded.

A graph is a list of nodes in the order in which they run, and the outputs: (name, value number).
Each node defines as many values as `Node.width` says; values are numbered 0, 1, 2, ... in the
order of the nodes, those inside the blocks of an `if` before the results of that `if`. A node may
use only values that are defined before it, in its own block or in one round it. Single assignment:
nothing is ever written twice.

A decision is explicit: a `draw` node is one random decision of one op, and every `apply` node says
which decision it follows. A joint op, an op instance used twice and a shared stream name are
therefore one thing: several applies of one draw.

The pipeline id is the BLAKE2b-128 of the canonical form of the normal form
(`stoker.pipeline.normal`) and the contract versions. Source lines (`sites`) are carried beside,
outside the identity. Reading refuses what is too large, too deep, of another version, or not
well-formed. Specified with vectors in docs/contracts/graph.md. Plain data, no code: safe to
receive.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from stoker.pipeline.sites import NOWHERE, Site
from stoker.protocol import version
from stoker.protocol.canonical import canonical_bytes, canonical_digest
from stoker.protocol.errors import BuildError, VersionError

MAX_NODES: Final = 2048
MAX_DEPTH: Final = 16
MAX_PARAMS_BYTES: Final = 65536
MAX_OUTPUTS: Final = 256
MAX_ARGS: Final = 64
MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Number = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=MAX_ARGS)]
Nodes = Annotated[tuple["Node", ...], msgspec.Meta(max_length=MAX_NODES)]

UNARY: Final = ("neg", "not", "height", "width", "record")
BINARY: Final = (
    "add", "sub", "mul", "div", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
)  # fmt: skip
EXPRESSIONS: Final = (*UNARY, *BINARY)


class _Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="node"):
    @property
    def width(self) -> int:
        """How many values the node defines."""
        return 1


class Input(_Struct, frozen=True, tag="input"):
    """A field of the sample; defines one value. Top level only."""

    field: Name


class Context(_Struct, frozen=True, tag="context"):
    """A fact about the row, an int64; defines one value. Top level only."""

    name: Literal["epoch", "view"]


class Const(_Struct, frozen=True, tag="const"):
    """A constant: bool, int64 or float64; defines one value."""

    value: bool | int | float


class Draw(_Struct, frozen=True, tag="draw"):
    """One decision of an op.

    Attributes:
        op: registered name of the op.
        version: version of the op that the graph was made for.
        params: constructor parameters, plain data.
        stream: stream name that it draws from; None for an op that draws nothing.
        of: values that the decision looks at; the first gives height and width. May be empty.
    """

    op: Name
    version: Annotated[int, msgspec.Meta(ge=1)]
    params: dict[str, Any]
    stream: Name | None
    of: Numbers


class Apply(_Struct, frozen=True, tag="apply"):
    """A decision applied to values; defines `results` values, in v1 one for each of `to`."""

    draw: Number
    to: Numbers
    results: Annotated[int, msgspec.Meta(ge=1, le=MAX_ARGS)]

    @property
    def width(self) -> int:
        """How many values the node defines."""
        return self.results


class Expr(_Struct, frozen=True, tag="expr"):
    """A scalar made of values. `name` is the record's field for `record`, else empty.

    `height` and `width` take one image or mask, `record` takes a draw, the others take scalars.
    """

    op: Name
    args: Numbers
    name: Annotated[str, msgspec.Meta(max_length=256)] = ""


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes of one branch, and the values that it hands out."""

    nodes: Nodes
    results: Numbers


class If(_Struct, frozen=True, tag="if"):
    """A choice for each sample: one block runs, the other does not; the results join."""

    cond: Number
    then: Block
    orelse: Block = msgspec.field(name="else")

    @property
    def width(self) -> int:
        """How many values the node defines."""
        return len(self.then.results)


Node = Input | Context | Const | Draw | Apply | Expr | If


class Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pipeline as data.

    Attributes:
        version: of the graph format.
        nodes: what runs, in order.
        outputs: (name, value number) in the order in which a batch holds them.
        sites: (value number, file, line): where the user wrote it; outside the identity.
    """

    version: int = version.GRAPH
    nodes: Nodes
    outputs: Annotated[tuple[tuple[Name, Number], ...], msgspec.Meta(max_length=MAX_OUTPUTS)]
    sites: Annotated[
        tuple[tuple[Number, Annotated[str, msgspec.Meta(max_length=4096)], Number], ...],
        msgspec.Meta(max_length=MAX_NODES * 2),
    ] = ()

    def to_data(self, *, sites: bool = True) -> dict[str, Any]:
        """Return the graph as plain data: dict, list, text, numbers; without sites if asked."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        if not sites or not self.sites:
            data.pop("sites")
        return data

    @staticmethod
    def from_data(data: object) -> Graph:
        """Read plain data.

        Raises:
            VersionError: the graph is of another version of the format.
            BuildError: it is malformed, too large or too deep; the message says where.
        """
        found = data.get("version") if isinstance(data, dict) else None
        if isinstance(found, int) and found != version.GRAPH:
            raise VersionError(
                f"graph: expected version {version.GRAPH}, got {found}; use the same version of "
                "Stoker on both sides"
            )
        _check_depth(data)
        try:
            graph = msgspec.convert(data, Graph)
        except (msgspec.ValidationError, RecursionError) as error:
            raise BuildError(f"graph: {error}") from None
        check(graph)
        return graph

    @property
    def pipeline_id(self) -> str:
        """BLAKE2b-128 of the normal form and the contract versions, 32 hex digits."""
        from stoker.pipeline.normal import normalise  # noqa: PLC0415 - it needs the nodes above

        contracts = {
            "random": version.RANDOM,
            "numeric": version.NUMERIC,
            "decoder": version.DECODER,
        }
        return canonical_digest(
            {"contracts": contracts, "graph": normalise(self).to_data(sites=False)}
        )

    def site(self, value: int) -> Site:
        """Return where the user wrote the node that defines a value."""
        for number, file, line in self.sites:
            if number == value:
                return Site(file, line)
        return NOWHERE


def check(graph: Graph) -> None:
    """Check what types alone do not say: scopes, sorts of values, bounds.

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
        seen.add(name)
    if not graph.outputs:
        raise BuildError("graph: there are no outputs; return at least one named value")


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
            case Input() | Context():
                if depth:
                    raise BuildError(f"graph: {where}: inputs stand at the top level only")
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
        try:
            size = len(canonical_bytes(node.params))
        except (TypeError, ValueError, RecursionError) as error:
            raise BuildError(f"graph: {where}: parameters of {node.op}: {error}") from None
        if size > MAX_PARAMS_BYTES:
            raise BuildError(
                f"graph: {where}: parameters of {node.op}: at most {MAX_PARAMS_BYTES} bytes, "
                f"got {size}"
            )

    def apply(self, node: Apply, visible: dict[int, bool], where: str) -> None:
        self.use(node.draw, visible, where, draws=True)
        for value in node.to:
            self.use(value, visible, where, draws=False)
        if node.results != len(node.to) or not node.to:
            raise BuildError(
                f"graph: {where}: expected one result for each of {len(node.to)} values (at least "
                f"one), got {node.results}"
            )

    def expr(self, node: Expr, visible: dict[int, bool], where: str) -> None:
        if node.op not in EXPRESSIONS:
            raise BuildError(
                f"graph: {where}: unknown expression {node.op!r}; there are: "
                f"{', '.join(sorted(EXPRESSIONS))}"
            )
        if len(node.args) != (1 if node.op in UNARY else 2):
            raise BuildError(f"graph: {where}: {node.op} got {len(node.args)} values")
        for value in node.args:
            self.use(value, visible, where, draws=node.op == "record")

    def branch(self, node: If, visible: dict[int, bool], depth: int, where: str) -> None:
        self.use(node.cond, visible, where, draws=False)
        if len(node.then.results) != len(node.orelse.results):
            raise BuildError(
                f"graph: {where}: both blocks hand out the same number of values, got "
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


def _check_depth(data: object) -> None:
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
