"""The normal form of a graph, from which its identity is computed.

Two pipelines that compute the same steps have one normal form, however they were written: nodes
and results of an `if` that no output needs are removed; equal nodes are merged; an apply with
several results becomes several applies; and nodes are in the order in which a depth-first walk
from the outputs (in their order) first needs them. So statement order, helper functions, unused
fields and numbering do not count. Order and names of outputs do, as they decide the bytes of a
batch.

Nodes never leave their block: normalizing never runs a branch that did not run before. The walks
keep their own stacks, so a long chain does not hit Python's recursion limit; only blocks recurse.
"""

from __future__ import annotations

import msgspec

from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import (
    Apply,
    Block,
    Const,
    Draw,
    Expr,
    If,
    Node,
)
from stoker.protocol.canonical import canonical_bytes

Made = tuple[Node, int]
Memo = dict[Node | bytes, int]


def normalize(graph: Graph) -> Graph:
    """Return the normal form; sites and unneeded calls are carried along."""
    writer = _Writer(graph)
    nodes, env = writer.block([v for _, v in graph.outputs], {}, [{}])
    outputs = tuple((name, env[value]) for name, value in graph.outputs)
    sites = tuple((new, *writer.sites[new]) for new in sorted(writer.sites))
    order = [name for name, _ in outputs]
    forms = tuple(sorted(graph.forms, key=lambda form: order.index(form.output)))
    normal: Graph = msgspec.structs.replace(
        graph, nodes=tuple(nodes), outputs=outputs, forms=forms, sites=sites
    )
    return normal


def pipeline_id(graph: Graph) -> str:
    """Return the identity of a pipeline: the digest of the normal form, 32 hex digits.

    It is the BLAKE2b-128 of the canonical form of that graph and of the contract versions.
    """
    return normalize(graph).digest


def values_of(node: Node) -> tuple[int, ...]:
    """Return the values that a node itself uses, without those inside its blocks."""
    match node:
        case Draw():
            return (*node.of, *(value for _, _, value in node.varies))
        case Apply():
            return (node.draw, *node.to)
        case Expr():
            return node.args
        case If():
            return (node.cond,)
        case _:
            return ()


def number_nodes(nodes: tuple[Node, ...], start: int) -> tuple[list[tuple[Node, int]], int]:
    """Pair each node with the number of its first value; return the next free number too."""
    numbered = []
    for node in nodes:
        if isinstance(node, If):
            _, start = number_nodes(node.then.nodes, start)
            _, start = number_nodes(node.orelse.nodes, start)
        numbered.append((node, start))
        start += node.width
    return numbered, start


def first_inside(node: If, first: int) -> tuple[int, int]:
    """Return the first numbers inside the blocks of an `if` whose results begin at `first`."""
    then = first - _count(node.then.nodes) - _count(node.orelse.nodes)
    return then, then + _count(node.then.nodes)


def _count(nodes: tuple[Node, ...]) -> int:
    return number_nodes(nodes, 0)[1]


class _Writer:
    """Writes the normal form; `next` is the next new number, `sites` maps new numbers to sites."""

    def __init__(self, graph: Graph) -> None:
        self.next = 0
        self.old_sites = {number: (file, line) for number, file, line in graph.sites}
        self.sites: dict[int, tuple[str, int]] = {}
        self.places = Places(graph)
        self.live = live_values(graph, self.places)
        self.free: dict[int, list[int]] = {}

    def block(
        self, results: list[int], outer: dict[int, int], memos: list[Memo]
    ) -> tuple[list[Node], dict[int, int]]:
        """Write the nodes that `results` need; return them and old number -> new number."""
        env = dict(outer)
        written: list[Node] = []
        stack = list(reversed(results))
        while stack:
            value = stack[-1]
            if value in env:
                stack.pop()
                continue
            node, first = self.places.owners[value]
            needs = [need for need in self.needs(node, first, value) if need not in env]
            if needs:
                stack.extend(reversed(needs))
                continue
            self.write(node, first, value, env, memos, written)
        return written, env

    def needs(self, node: Node, first: int, value: int) -> list[int]:
        """Values of this block or outer ones that must precede the node."""
        if isinstance(node, Apply):
            return [node.draw, *node.made_of(value - first)]
        if isinstance(node, If):
            return [node.cond, *self.free_of(node, first)]
        return list(values_of(node))

    def write(
        self,
        node: Node,
        first: int,
        value: int,
        env: dict[int, int],
        memos: list[Memo],
        written: list[Node],
    ) -> None:
        if isinstance(node, If):
            self.write_if(node, first, env, memos, written)
            return
        new = renumber(node, env, value - first)
        key = _memo_key(new)
        for memo in memos:
            if key in memo:
                env[value] = memo[key]
                return
        memos[-1][key] = env[value] = self.next
        written.append(new)
        self.place(value)

    def write_if(
        self,
        node: If,
        first: int,
        env: dict[int, int],
        memos: list[Memo],
        written: list[Node],
    ) -> None:
        kept = [i for i in range(node.width) if first + i in self.live]
        blocks = []
        for block in (node.then, node.orelse):
            results = [block.results[i] for i in kept]
            nodes, inner = self.block(results, env, [*memos, {}])
            blocks.append(Block(tuple(nodes), tuple(inner[value] for value in results)))
        written.append(If(env[node.cond], *blocks))
        for i in kept:
            env[first + i] = self.next
            self.place(first + i)

    def free_of(self, node: If, first: int) -> list[int]:
        """Return the outer values that the live part of both blocks needs, in walk order."""
        if first not in self.free:
            kept = [i for i in range(node.width) if first + i in self.live]
            found: dict[int, None] = {}
            for block, (start, end) in zip(
                (node.then, node.orelse), self.places.inside[first], strict=True
            ):
                found.update(self._free_in(block, kept, start, end))
            self.free[first] = list(found)
        return self.free[first]

    def _free_in(self, block: Block, kept: list[int], start: int, end: int) -> dict[int, None]:
        """The same for one block, whose own values are numbered from `start` to below `end`."""
        found: dict[int, None] = {}
        seen: set[int] = set()
        stack = [block.results[i] for i in reversed(kept)]
        while stack:
            value = stack.pop()
            if not start <= value < end:
                found[value] = None
            elif value not in seen:
                seen.add(value)
                stack.extend(reversed(self.needs(*self.places.owners[value], value)))
        return found

    def place(self, old: int) -> None:
        if old in self.old_sites:
            self.sites[self.next] = self.old_sites[old]
        self.next += 1


def _memo_key(node: Node) -> Node | bytes:
    """Return the memo key of equal nodes; bytes, as Python treats 1, 1.0 and True as equal."""
    if isinstance(node, Draw | Const):
        return canonical_bytes(msgspec.to_builtins(node))
    return node


def renumber(node: Node, env: dict[int, int], index: int) -> Node:
    """Return a node (not an `if`) with other numbers; of an apply, only its result `index`."""
    match node:
        case Draw():
            of = tuple(env[value] for value in node.of)
            varies = tuple((name, place, env[value]) for name, place, value in node.varies)
            return Draw(node.op, node.version, node.params, node.stream, of, varies, node.shared)
        case Apply():
            to = tuple(env[value] for value in node.made_of(index))
            return Apply(env[node.draw], to, 1, node.relative)
        case Expr():
            return Expr(node.op, tuple(env[value] for value in node.args), node.name)
        case Const():
            return Const(node.value)
        case _:
            return node


class Places:
    """The definitions of a graph's values.

    Attributes:
        owners: number of a value -> (the node that defines it, number of the node's first value).
        inside: number of the first result of an `if` -> for each of its two blocks the numbers of
            the values in it and in nested blocks: (the first, the one after the last).
    """

    def __init__(self, graph: Graph) -> None:
        self.owners: dict[int, Made] = {}
        self.inside: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
        self._number(graph.nodes, 0)

    def _number(self, nodes: tuple[Node, ...], start: int) -> int:
        """Number the values of nodes; return the next free number."""
        for node in nodes:
            if isinstance(node, If):
                middle = self._number(node.then.nodes, start)
                end = self._number(node.orelse.nodes, middle)
                self.inside[end] = (start, middle), (middle, end)
                start = end
            for value in range(start, start + node.width):
                self.owners[value] = node, start
            start += node.width
        return start


def live_values(graph: Graph, places: Places) -> set[int]:
    """Return the old numbers of all values that an output needs."""
    live: set[int] = set()
    pending = [value for _, value in graph.outputs]
    while pending:
        value = pending.pop()
        if value in live:
            continue
        live.add(value)
        node, first = places.owners[value]
        if isinstance(node, Apply):
            pending += (node.draw, *node.made_of(value - first))
        elif isinstance(node, If):
            index = value - first
            pending += (node.cond, node.then.results[index], node.orelse.results[index])
        else:
            pending += values_of(node)
    return live
