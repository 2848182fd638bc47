"""A pipeline for one bucket: the bucket's size becomes a number, and so does every shape after it.

All rows of a batch have one bucket, so a plan is bound for each. The facts `bucket_height` and
`bucket_width` of a graph, or `bucket_length`, become constants, and ops whose parameters follow
only these become plain ones. The pipeline id is that of the graph as it was written.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Block, Const, Draw, Fact, If, Node
from stoker.pipeline.graph.normal import normalize
from stoker.pipeline.graph.schedule import FIRST, OF_BUCKET, Formulas, facts_read
from stoker.protocol.errors import BuildError, UsageError


class Size(NamedTuple):
    """Size of a bucket's outputs in pixels; for a bucket of sequences the length, and height 0."""

    height: int
    width: int

    @property
    def facts(self) -> dict[str, int]:
        """The facts that a pipeline may read of it, by name."""
        if not self.height:
            return {"bucket_length": self.width}
        return {"bucket_height": self.height, "bucket_width": self.width}


def given_size(bucket: tuple[int, int] | int | None) -> Size | None:
    """Return the bucket size that a user passed: (width, height), or a length.

    Raises:
        UsageError: it is neither.
    """
    if bucket is None:
        return None
    sides = (bucket, 1) if isinstance(bucket, int) else bucket
    pair = isinstance(sides, tuple) and len(sides) == 2
    if not pair or not all(type(side) is int and side > 0 for side in sides):
        raise UsageError(f"bucket: expected (width, height) in pixels, or a length, got {bucket!r}")
    return Size(height=0 if isinstance(bucket, int) else sides[1], width=sides[0])


def reads_bucket(graph: Graph) -> bool:
    """Return whether a pipeline reads the size of the sample's bucket."""
    return not facts_read(graph).isdisjoint(OF_BUCKET)


def in_bucket(graph: Graph, size: Size | None) -> Graph:
    """Return a graph in normal form, specialized for the samples of one bucket.

    Args:
        graph: in normal form.
        size: of the bucket; None without buckets.

    Raises:
        BuildError: the pipeline reads the size of a bucket, but the stream has no buckets.
    """
    if not reads_bucket(graph):
        return graph
    if size is None:
        raise BuildError(
            "the pipeline reads the size of the sample's bucket (fit_bucket, fit_length, "
            "ctx.bucket_height, ctx.bucket_width, ctx.bucket_length), and there are no buckets: "
            "pass buckets= to the Loader, bucket=(width, height) or a length to compute one "
            "sample, or --bucket to a command"
        )
    known = size.facts
    missing = facts_read(graph).intersection(OF_BUCKET).difference(known)
    if missing:
        sort, fit = ("lengths", "fit_length") if not size.height else ("sizes", "fit_bucket")
        raise BuildError(
            f"the pipeline reads {', '.join(sorted(missing))}, but the buckets are of {sort}: use "
            f"ops.{fit}, or other buckets"
        )
    nodes: tuple[Node, ...] = tuple(
        Const(known[node.name]) if isinstance(node, Fact) and node.name in known else node
        for node in graph.nodes
    )
    plain = msgspec.structs.replace(graph, nodes=nodes)
    settled = _settled(nodes, Formulas(plain))
    return normalize(msgspec.structs.replace(plain, nodes=settled))


def _settled(nodes: tuple[Node, ...], formulas: Formulas) -> tuple[Node, ...]:
    return tuple(_settle(node, formulas) for node in nodes)


def _settle(node: Node, formulas: Formulas) -> Node:
    """Return a node with its schedule evaluated, if it is constant now."""
    if isinstance(node, If):
        blocks = [Block(_settled(b.nodes, formulas), b.results) for b in (node.then, node.orelse)]
        return If(node.cond, *blocks)
    if not isinstance(node, Draw):
        return node
    schedule = formulas.schedule(node)
    if schedule is None or schedule.facts:
        return node
    rest = tuple(one for one in node.varies if one not in schedule.varies)
    return msgspec.structs.replace(node, params=schedule.at(FIRST), varies=rest)
