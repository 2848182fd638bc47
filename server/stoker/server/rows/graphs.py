"""Pipeline graphs as bytes: how they travel from client to daemon to worker.

The bytes are the canonical form of the graph's data, so they are checked as data and never run.
"""

from typing import Any

from stoker.pipeline.graph.graph import Graph
from stoker.protocol.canonical import canonical_bytes, canonical_value
from stoker.protocol.errors import BuildError


def graph_to_bytes(graph: Graph) -> bytes:
    """Return the canonical form of a graph, source lines included."""
    data: Any = graph.to_data()
    return canonical_bytes(data)


def graph_from_bytes(data: bytes) -> Graph:
    """Read a graph back.

    Raises:
        BuildError: the bytes are not a graph; the message says where.
        VersionError: the graph is of another version of the format.
    """
    try:
        value = canonical_value(data)
    except ValueError as error:
        raise BuildError(f"graph: {error}") from None
    return Graph.from_data(value)
