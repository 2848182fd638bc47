"""Which modules of an author's a pipeline needs in another process of the same author.

A pipeline travels as graph data; ops and functions of users stand in it as `module:attr`. A process
imports such names only from modules that it was told to allow. Where an author sends a pipeline to
a process of his own, to a worker of a torch DataLoader for example, the modules that it was made
with go along and are allowed there. A daemon never does this: there the operator allows.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.pipeline.graph import Graph
from stoker.pipeline.nodes import Draw, draws_of


def code_modules(graph: Graph) -> tuple[str, ...]:
    """Return the modules that the ops and functions of users in a graph are imported from."""
    names = [name for draw in draws_of(graph.nodes) for name in _names(draw)]
    return tuple(sorted({name.partition(":")[0] for name in names}))


def _names(draw: Draw) -> Iterator[str]:
    if ":" in draw.op:
        yield draw.op
    function = draw.params.get("function")
    if draw.op in ("python", "python_together") and isinstance(function, str):
        yield function
